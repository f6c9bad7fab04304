// How often this test binary has called operator new.
#ifndef MILLRACE_TESTS_RUNTIME_ALLOCATION_COUNT_H_
#define MILLRACE_TESTS_RUNTIME_ALLOCATION_COUNT_H_

#include <cstdint>

namespace millrace {

int64_t AllocationCount();

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUNTIME_ALLOCATION_COUNT_H_
