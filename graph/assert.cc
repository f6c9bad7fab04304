#include "graph/assert.h"

#include <cstdio>
#include <cstdlib>

namespace millrace {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: internal error (please report): %s\n", file, line, condition);
  std::abort();
}

}  // namespace millrace
