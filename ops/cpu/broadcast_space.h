// The index space of an elementwise op of two operands, with as few dims as it can be walked in:
// dims of size 1 are dropped, and neighbours that both operands step through alike are merged.
// Adding a bias to [8,128,768] becomes [1024,768]; adding equal shapes becomes one dim.
#ifndef MILLRACE_OPS_CPU_BROADCAST_SPACE_H_
#define MILLRACE_OPS_CPU_BROADCAST_SPACE_H_

#include <cstdint>

#include "graph/types.h"

namespace millrace {

struct BroadcastSpace {
  int rank = 1;  // at least 1
  int64_t dims[kMaxRank] = {1};
  // Elements; 0 where the operand is repeated. In the last dim 0 or 1.
  int64_t a[kMaxRank] = {1};
  int64_t b[kMaxRank] = {1};
  int64_t count = 1;  // points
};

// `a` and `b` broadcast to `out`.
BroadcastSpace MakeBroadcastSpace(const Shape& a, const Shape& b, const Shape& out);

// Calls row(a_offset, b_offset, out_offset, length) for the pieces, each within one row (a run
// along the last dim), that make up points [begin, end) in row-major order.
template <typename Row>
void WalkRows(const BroadcastSpace& space, int64_t begin, int64_t end, Row&& row) {
  const int last = space.rank - 1;
  const int64_t length = space.dims[last];
  int64_t index[kMaxRank] = {};
  int64_t a = 0, b = 0, column = 0;
  for (int64_t d = last, rest = begin; d >= 0 && begin > 0; --d) {
    index[d] = rest % space.dims[d];
    rest /= space.dims[d];
    if (d == last) {
      column = index[d];
      continue;
    }
    a += index[d] * space.a[d];
    b += index[d] * space.b[d];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t piece = length - column < end - at ? length - column : end - at;
    row(a + column * space.a[last], b + column * space.b[last], at, piece);
    at += piece;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      a += space.a[d];
      b += space.b[d];
      if (++index[d] < space.dims[d]) break;
      a -= space.a[d] * space.dims[d];
      b -= space.b[d] * space.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_BROADCAST_SPACE_H_
