// Ctrl-C, and a polite kill. At most times they end the process at once with the exit code that
// shells give them (130, 143); while a Deferral lives (a step runs, results are written) the first
// one is only noted, for main to return that code when the command is done, and the second ends the
// process.
#ifndef MILLRACE_TOOLS_INTERRUPT_H_
#define MILLRACE_TOOLS_INTERRUPT_H_

namespace millrace {

void InstallInterruptHandler();

// The exit code of an interrupt that was noted, or 0. Wind up then; a loop of steps returns
// absl::CancelledError.
int InterruptedExitCode();

class InterruptDeferral {
 public:
  InterruptDeferral();
  ~InterruptDeferral();
  InterruptDeferral(const InterruptDeferral&) = delete;
  InterruptDeferral& operator=(const InterruptDeferral&) = delete;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_INTERRUPT_H_
