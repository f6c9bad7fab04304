#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace millrace {
namespace {

std::atomic<bool> deferring = false;
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

void OnInterrupt(int) {
  if (deferring && !interrupted.exchange(true)) return;
  _exit(kInterruptedExitCode);
}

}  // namespace

void InstallInterruptHandler() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

bool Interrupted() { return interrupted; }

InterruptDeferral::InterruptDeferral() { deferring = true; }
InterruptDeferral::~InterruptDeferral() { deferring = false; }

}  // namespace millrace
