// A model small enough to read its plans: two layers, and the step that trains them.
#ifndef MILLRACE_TESTS_PARALLEL_PERCEPTRON_H_
#define MILLRACE_TESTS_PARALLEL_PERCEPTRON_H_

#include "graph/graph.h"
#include "passes/training.h"

namespace millrace {

// x (batches of 12) -> w1, b1 (12 -> 16) -> Relu -> w2, b2 (16 -> 4) -> scores.
Graph PerceptronGraph();

// Adam on the cross entropy of its scores.
TrainingGraph TrainedPerceptron();

}  // namespace millrace

#endif  // MILLRACE_TESTS_PARALLEL_PERCEPTRON_H_
