// Ctrl-C. At most times it ends the process at once with exit code 130; while a Deferral lives (a
// step runs, results are written) the first one is only noted, for main to return that code when
// the command is done, and the second ends the process.
#ifndef MILLRACE_TOOLS_INTERRUPT_H_
#define MILLRACE_TOOLS_INTERRUPT_H_

namespace millrace {

inline constexpr int kInterruptedExitCode = 130;  // 128 + SIGINT, as shells have it

void InstallInterruptHandler();

// An interrupt was noted: wind up. A loop of steps returns absl::CancelledError.
bool Interrupted();

class InterruptDeferral {
 public:
  InterruptDeferral();
  ~InterruptDeferral();
  InterruptDeferral(const InterruptDeferral&) = delete;
  InterruptDeferral& operator=(const InterruptDeferral&) = delete;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_INTERRUPT_H_
