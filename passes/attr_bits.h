// Attributes compared and hashed by their bits: -0 is not 0, and a NaN equals itself.
#ifndef MILLRACE_PASSES_ATTR_BITS_H_
#define MILLRACE_PASSES_ATTR_BITS_H_

#include <cstddef>

#include "graph/graph.h"

namespace millrace {

bool SameBits(const Attrs& a, const Attrs& b);
size_t HashOfBits(const Attrs& attrs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ATTR_BITS_H_
