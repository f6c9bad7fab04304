// The address of a HWY_EXPORTed function for this processor, so that a kernel looks it up once,
// when it is prepared (Highway's own macro looks it up at each call).
#ifndef MILLRACE_OPS_CPU_SIMD_DISPATCH_H_
#define MILLRACE_OPS_CPU_SIMD_DISPATCH_H_

#include "hwy/highway.h"

namespace millrace {

// Once: to ask the processor takes a virtual machine tens of microseconds.
inline void ChooseSimdTarget() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
}

}  // namespace millrace

#define MILLRACE_SIMD_FUNCTION(name) (ChooseSimdTarget(), &HWY_DYNAMIC_DISPATCH(name))

#endif  // MILLRACE_OPS_CPU_SIMD_DISPATCH_H_
