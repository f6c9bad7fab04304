// Counts calls of operator new in this test binary.
#ifndef MILLRACE_TESTS_OPS_ALLOCATION_COUNT_H_
#define MILLRACE_TESTS_OPS_ALLOCATION_COUNT_H_

#include <cstdint>

namespace millrace {

int64_t AllocationCount();  // so far, by all threads

}  // namespace millrace

#endif  // MILLRACE_TESTS_OPS_ALLOCATION_COUNT_H_
