// Replaces the global operators, in a file of its own: where a compiler can inline one of the pair
// only, it takes the other for a mismatch.
#include "tests/runtime/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count{0};
}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace millrace {

int64_t AllocationCount() { return count.load(); }

}  // namespace millrace
