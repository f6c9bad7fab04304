// What elementwise ops share: inference, and reference kernels from a scalar function. A kernel
// reads an element before it writes the result there, so any operand of the result's type may lie
// on the result's bytes.
#ifndef MILLRACE_OPS_ELEMENTWISE_H_
#define MILLRACE_OPS_ELEMENTWISE_H_

#include "ops/broadcast.h"
#include "ops/index_walk.h"
#include "ops/op_def.h"
#include "ops/reference_dispatch.h"

namespace millrace {

// Result 0 has the type of input 0.
absl::Status InferLikeInput(InferContext& context);
// Result 0 has the dtype of input 0 and the shape inputs 0 and 1 broadcast to.
absl::Status InferBroadcast(InferContext& context);

// Likewise, of bools.
absl::Status InferComparison(InferContext& context);

// Rules for functions of one operand that never decrease: they commute with max and min.
std::vector<ShardingRule> MonotoneRules(const NodeQuery& query);

// out[i] = function(x[i]), computed in f64 and rounded once (integers: truncated).
template <typename T, typename R, typename F>
void MapDoubles(const Tensor& x, Tensor& out, F&& function) {
  const std::span<const T> from = x.data<T>();
  const std::span<R> to = out.mutable_data<R>();
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = ConvertTo<R>(function(static_cast<double>(from[i])));
  }
}

// The reference of a function of one float: kFunction(double) -> double.
template <auto kFunction>
absl::Status MapFloats(const ReferenceContext& c) {
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapDoubles<T, T>(c.inputs[0], c.outputs[0], kFunction);
    return absl::OkStatus();
  });
}

// out = kFunction(a, b) with broadcasting, on elements of T widened to Wide.
template <auto kFunction, typename T, typename R, typename Wide = NativeType<T>>
void MapPairs(const Tensor& a, const Tensor& b, Tensor& out) {
  const T* x = a.data<T>().data();
  const T* y = b.data<T>().data();
  R* to = out.mutable_data<R>().data();
  const Shape& space = out.shape();
  WalkIndices<3>(
      space,
      {BroadcastStrides(a.shape(), space), BroadcastStrides(b.shape(), space), DenseStrides(space)},
      [&](const std::array<int64_t, 3>& at) {
        to[at[2]] =
            static_cast<R>(kFunction(static_cast<Wide>(x[at[0]]), static_cast<Wide>(y[at[1]])));
      });
}

}  // namespace millrace

#endif  // MILLRACE_OPS_ELEMENTWISE_H_
