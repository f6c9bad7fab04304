// What the f32 kernels of optimizers compute with, the same for every instruction set.
#ifndef MILLRACE_OPS_CPU_OPTIMIZER_STEP_H_
#define MILLRACE_OPS_CPU_OPTIMIZER_STEP_H_

#include <cstdint>

namespace millrace {

// Elements of param, gradient and states, before and after; `to` may lie on `from`. A state that
// the node has not is null.
struct OptimizerStep {
  const float* grad = nullptr;
  const float* from[3] = {};  // the param, then its states
  float* to[3] = {};
  float rate = 0, decay = 0;
  float keep1 = 0, keep2 = 0;  // of the states: momentum, alpha, beta1, beta2
  float epsilon = 0;
  float scale1 = 1, scale2 = 1;  // Adam: of m, and of the root of v, for their bias
  bool flag = false;             // SGD: nesterov; Adam: decoupled decay
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_OPTIMIZER_STEP_H_
