// The index space of an elementwise op of two or three operands, with as few dims as it can be
// walked in: dims of size 1 are dropped, and neighbours that all operands step through alike are
// merged. Adding a bias to [8,128,768] becomes [1024,768]; adding equal shapes becomes one dim.
#ifndef MILLRACE_OPS_CPU_BROADCAST_SPACE_H_
#define MILLRACE_OPS_CPU_BROADCAST_SPACE_H_

#include <array>
#include <cstdint>
#include <span>

#include "graph/target.h"
#include "graph/types.h"

namespace millrace {

inline constexpr int kMaxBroadcast = 3;  // operands

struct BroadcastSpace {
  int rank = 1;  // at least 1
  int64_t dims[kMaxRank] = {1};
  // By operand; elements; 0 where it is repeated. In the last dim 0 or 1.
  int64_t strides[kMaxBroadcast][kMaxRank] = {{1}, {1}, {1}};
  int64_t count = 1;  // points

  // Operand i steps along the last dim.
  bool Steps(int i) const { return strides[i][rank - 1] != 0; }
};

// All of `operands` broadcast to `out`.
BroadcastSpace MakeBroadcastSpace(std::span<const Shape> operands, const Shape& out);
// Of a query's inputs, all of which are there, and output 0.
BroadcastSpace BroadcastSpaceOf(const NodeQuery& query);

// Calls row(offsets of kOperands operands, out_offset, length) for the pieces, each within one row
// (a run along the last dim), that make up points [begin, end) in row-major order.
template <int kOperands, typename Row>
void WalkRows(const BroadcastSpace& space, int64_t begin, int64_t end, Row&& row) {
  const int last = space.rank - 1;
  const int64_t length = space.dims[last];
  int64_t index[kMaxRank] = {};
  std::array<int64_t, kOperands> starts{};  // of the row
  int64_t column = 0;
  for (int64_t d = last, rest = begin; d >= 0 && begin > 0; --d) {
    index[d] = rest % space.dims[d];
    rest /= space.dims[d];
    if (d == last) {
      column = index[d];
      continue;
    }
    for (int k = 0; k < kOperands; ++k) starts[k] += index[d] * space.strides[k][d];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t piece = length - column < end - at ? length - column : end - at;
    std::array<int64_t, kOperands> offsets;
    for (int k = 0; k < kOperands; ++k) offsets[k] = starts[k] + column * space.strides[k][last];
    row(offsets, at, piece);
    at += piece;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      const bool more = ++index[d] < space.dims[d];
      const int64_t steps = more ? 1 : 1 - space.dims[d];
      for (int k = 0; k < kOperands; ++k) starts[k] += steps * space.strides[k][d];
      if (more) break;
      index[d] = 0;
    }
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_BROADCAST_SPACE_H_
