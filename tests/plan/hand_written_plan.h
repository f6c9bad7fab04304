// One PlanBundle written by hand that uses what plans can say: two programs with a compute and a
// copy stream each, microbatches in slots, a swap out and in, transfers both ways, a Call, a
// HostCall, work in the init section, and two params updated during the step, one in place and one
// by a copy. The tests run it on every backend, and break it in every way they can think of.
//
//   stage0                                  stage1
//   prepare: wt = w0^T            (init)
//   forward: h = x wt + b0                  receive: a from stage0; t to the host
//            a = relu(h)                    middle:  sum = reduce(t), condition to the host
//            a to stage1, a to swap                  z = if sum != 0: tanh(a) * w2, else: a - w2
//   backward: g from stage1, a from swap             y = softmax(z), g = z * t to stage0
//            d = g * a, dr = flat d                  nz = nonzero(t) on the host
//            b0 <- b0 - lr * sum(d)                  w2 <- w2 + mean(z)
//   F0 F1 B0 F2 B1 F3 B2 B3                 R0 R1 M0 R2 M1 R3 M2 M3
//
// Stage 0 keeps two microbatches in flight, so forward 1 still reads the first b0. The numbers of
// channel, streams and slots make every Wait needed: a test removes them one by one.
#ifndef MILLRACE_TESTS_PLAN_HAND_WRITTEN_PLAN_H_
#define MILLRACE_TESTS_PLAN_HAND_WRITTEN_PLAN_H_

#include <cstdint>
#include <map>
#include <string>

#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/tensor.h"

namespace millrace {

struct HandWrittenOptions {
  std::string kind0 = "cpu", kind1 = "cpu";     // devices of the stages
  MemorySpace swap_space = MemorySpace::kHost;  // where stage 0 swaps to: kHost or kFile
};
PlanBundle HandWrittenPlan(const HandWrittenOptions& options = {});

// Two cpu and two cuda devices of 1 MiB each.
MachineSpec HandWrittenMachine();

// The plan's inputs for one step, all microbatches stacked; other data for each step. In two of the
// four microbatches t sums to zero.
std::map<std::string, Tensor> HandWrittenInputs(int step);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PLAN_HAND_WRITTEN_PLAN_H_
