// BudgetProblem: what fitting into memory needs to know of a graph, as plain data: operations that
// take time and memory, in an order that is kept, and how much memory there is. An answer is a list
// of steps: each runs one operation, some of them more than once. A step that runs an operation
// again is a *repeat*; it makes new instances of the tensors that the operation writes, and those
// who come later read the newest.
//
// An instance lives from the step that makes it to the last that reads it, both included. What
// nobody reads lives during its step. Memory of a step is the sum of what lives then, what it works
// in, and what is always there.
#ifndef MILLRACE_PASSES_BUDGET_BUDGET_PROBLEM_H_
#define MILLRACE_PASSES_BUDGET_BUDGET_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/status.h"

namespace millrace {

// A result may be written over an operand of the same size that nobody needs any more; one that is
// larger may at best have the operand made in its place.
struct BudgetInPlace {
  int32_t write = -1, read = -1;  // tensors of the operation
};

struct BudgetOp {
  double time_us = 0;
  int64_t workspace_bytes = 0;
  bool can_repeat = true;
  std::vector<int32_t> reads = {}, writes = {};  // tensors, each once
  std::vector<BudgetInPlace> in_place = {};
};

struct BudgetTensor {
  int64_t size_bytes = 0;
  int32_t producer = -1;  // -1: there from the start, to its last reader
  int32_t view_of = -1;   // lies in the bytes of that tensor, which its producer reads
  bool is_kept = false;   // to the end, once it is there; it is made but once
};

// Operations stand in an order that is allowed: tensors are made before they are read.
struct BudgetProblem {
  std::vector<BudgetOp> ops;
  std::vector<BudgetTensor> tensors;
  int64_t fixed_bytes = 0;  // always there
};

// An InternalError that says what is wrong.
absl::Status VerifyBudgetProblem(const BudgetProblem& problem);

// By tensor: the one whose bytes it lies in, which is no view.
std::vector<int32_t> StorageOfTensors(const BudgetProblem& problem);

// The operations that read a tensor or a view of it, ascending, each once; by tensor that is no
// view.
std::vector<std::vector<int32_t>> ReadersOfStorage(const BudgetProblem& problem,
                                                   std::span<const int32_t> storage);

// A tensor that lives at the step with most.
struct LiveTensor {
  int32_t tensor = -1;
  int64_t size_bytes = 0;
};

struct StepsMeasure {
  int64_t peak_bytes = 0;
  int32_t peak_step = -1;
  double time_us = 0;    // of all steps
  double repeat_us = 0;  // of the repeats among them
  int64_t num_repeats = 0;
};

// Plays `steps` (operations): an InternalError when one reads what is not there, or is missing, or
// repeats what may not be. O(reads).
absl::StatusOr<StepsMeasure> MeasureSteps(const BudgetProblem& problem,
                                          std::span<const int32_t> steps);
// What lives at step `at`, most bytes first.
std::vector<LiveTensor> LiveAtStep(const BudgetProblem& problem, std::span<const int32_t> steps,
                                   int32_t at);

// Every operation must run, with all it reads and writes there: the most that one of them takes
// together with what is always there. No steps need less, in whatever order.
struct WorkingSet {
  int64_t bytes = 0;
  int32_t op = -1;
};
WorkingSet LargestWorkingSet(const BudgetProblem& problem);

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUDGET_BUDGET_PROBLEM_H_
