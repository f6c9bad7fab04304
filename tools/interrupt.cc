#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace millrace {
namespace {

std::atomic<bool> deferring = false;
std::atomic<int> interrupted_by = 0;  // the signal
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

int CodeOf(int signal) { return signal == 0 ? 0 : 128 + signal; }

void OnInterrupt(int signal) {
  if (deferring && interrupted_by.exchange(signal) == 0) return;
  _exit(CodeOf(signal));
}

}  // namespace

void InstallInterruptHandler() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup, say
  }
}

int InterruptedExitCode() { return CodeOf(interrupted_by); }

InterruptDeferral::InterruptDeferral() { deferring = true; }
InterruptDeferral::~InterruptDeferral() { deferring = false; }

}  // namespace millrace
