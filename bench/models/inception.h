// Inception-v3 (Szegedy et al. 2015), without the auxiliary classifier: the model with the most to
// gain from several streams. Inferred; weights are seeded.
#ifndef MILLRACE_BENCH_MODELS_INCEPTION_H_
#define MILLRACE_BENCH_MODELS_INCEPTION_H_

#include <cstdint>

#include "graph/graph.h"

namespace millrace {

// Images of `size` pixels (299 in the paper, at least 75), 1,000 classes. Convolution,
// normalization and Relu are nodes of their own.
Graph InceptionV3Graph(int64_t batch, int64_t size = 299);

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_INCEPTION_H_
