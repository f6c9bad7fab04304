// Flags and host threads: signal, and wait while noticing cancellation.
#ifndef MILLRACE_RUNTIME_FLAG_WAIT_H_
#define MILLRACE_RUNTIME_FLAG_WAIT_H_

#include <cstdint>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

inline bool FlagReached(uint32_t value, uint32_t target) {
  return static_cast<int32_t>(value - target) >= 0;
}

// Everything written before is visible to whoever waits for `value`. Makes a system call only when
// a thread is asleep on the flag.
void SignalFlag(Flag& flag, uint32_t value);

// Returns when the flag has reached `value`; absl::CancelledError when the run was cancelled first
// (whoever cancelled it has the real error). Spins for some microseconds, then sleeps. A device may
// write the flag without waking anyone, so sleeps are short.
absl::Status WaitForFlag(Flag& flag, uint32_t value, const Cancellation& cancellation);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_FLAG_WAIT_H_
