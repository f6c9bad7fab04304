// The one place where a kernel of ours meets its OpenMP team. A kernel runs on its stream's leader
// thread with a fixed team; without OpenMP it runs alone.
#ifndef MILLRACE_OPS_CPU_TEAM_H_
#define MILLRACE_OPS_CPU_TEAM_H_

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace millrace {

// Work below this many element steps is not worth waking a team for (about 1.5 us on x86 servers).
inline constexpr int64_t kTeamGrain = 32768;

// Makes libraries that use OpenMP on this thread use a team of `threads`. A few ns when it is so
// already.
inline void SetTeamSize([[maybe_unused]] int threads) {
#ifdef _OPENMP
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
#endif
}

// SetTeamSize for a scope, on a thread that is not ours to change (planning, preparing).
class ScopedTeamSize {
 public:
#ifdef _OPENMP
  explicit ScopedTeamSize(int threads) : before_(omp_get_max_threads()) { SetTeamSize(threads); }
  ~ScopedTeamSize() { SetTeamSize(before_); }
  ScopedTeamSize(const ScopedTeamSize&) = delete;
  ScopedTeamSize& operator=(const ScopedTeamSize&) = delete;

 private:
  int before_;
#else
  explicit ScopedTeamSize(int) {}
#endif
};

// Which member of the team the caller is; 0 outside ParallelFor.
inline int TeamIndex() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

// Calls body(begin, end) on disjoint ranges that cover [0, n), on the whole team when `steps` of
// work in total are worth it, else on the caller alone. Range ends are multiples of `unit`, or n.
// The team is never of another size than `threads`: OpenMP would end and restart its threads.
template <typename Body>
void ParallelFor([[maybe_unused]] int threads, int64_t n, [[maybe_unused]] int64_t steps,
                 [[maybe_unused]] int64_t unit, Body&& body) {
#ifdef _OPENMP
  if (threads > 1 && n > unit && steps >= 2 * kTeamGrain) {
    const int64_t units = (n + unit - 1) / unit;
#pragma omp parallel num_threads(threads)
    {
      const int64_t count = omp_get_num_threads(), id = omp_get_thread_num();
      const int64_t begin = units * id / count * unit;
      const int64_t end = units * (id + 1) / count * unit;
      if (begin < n && begin < end) body(begin, end < n ? end : n);
    }
    return;
  }
#endif
  if (n > 0) body(int64_t{0}, n);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_TEAM_H_
