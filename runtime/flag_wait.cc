// A futex on the flag's value. The signaller stores the value and then looks for waiters; a waiter
// announces itself and then looks at the value: with both in sequentially consistent order one of
// them sees the other, so a sleeper is always woken. The time limit of a sleep serves flags written
// by a device (nobody calls wake) and cancellation (which knows no flags).
#include "runtime/flag_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace millrace {
namespace {

constexpr int kSpins = 200;  // of tens of nanoseconds each
constexpr int64_t kFirstSleepNs = 50'000;
constexpr int64_t kLongestSleepNs = 2'000'000;

void RelaxCpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void SleepOnFlag(Flag& flag, uint32_t seen, int64_t limit_ns) {
  const timespec limit{.tv_sec = 0, .tv_nsec = limit_ns};
  const int operation = flag.between_processes ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
  syscall(SYS_futex, &flag.value, operation, seen, &limit, nullptr, 0);
}

}  // namespace

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

void SignalFlag(Flag& flag, uint32_t value) {
  flag.value.store(value, std::memory_order_seq_cst);
  if (flag.waiters.load(std::memory_order_seq_cst) != 0) {
    const int operation = flag.between_processes ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE;
    syscall(SYS_futex, &flag.value, operation, INT_MAX, nullptr, nullptr, 0);
  }
}

absl::Status WaitForFlag(Flag& flag, uint32_t value, const Cancellation& cancellation) {
  for (int i = 0; i < kSpins; ++i) {
    if (FlagReached(flag.value.load(std::memory_order_acquire), value)) return absl::OkStatus();
    RelaxCpu();
  }
  flag.waiters.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  for (int64_t sleep_ns = kFirstSleepNs; !cancellation.requested();
       sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs)) {
    const uint32_t seen = flag.value.load(std::memory_order_seq_cst);
    reached = FlagReached(seen, value);
    if (reached) break;
    SleepOnFlag(flag, seen, sleep_ns);
  }
  flag.waiters.fetch_sub(1, std::memory_order_relaxed);
  return reached ? absl::OkStatus() : absl::CancelledError("the run was cancelled");
}

}  // namespace millrace
