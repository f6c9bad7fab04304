// MILLRACE_CHECK: an invariant of our own code. A failure is our bug, never the user's; it prints
// the place and aborts.
#ifndef MILLRACE_GRAPH_ASSERT_H_
#define MILLRACE_GRAPH_ASSERT_H_

namespace millrace {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace millrace

#define MILLRACE_CHECK(condition)                                                 \
  (__builtin_expect(static_cast<bool>(condition), 1)                              \
       ? static_cast<void>(0)                                                     \
       : ::millrace::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // MILLRACE_GRAPH_ASSERT_H_
