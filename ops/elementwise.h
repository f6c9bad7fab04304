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

// Rules for functions of one operand that never decrease: they commute with max and min.
std::vector<ShardingRule> MonotoneRules(const NodeQuery& query);

// out[i] = F::Apply(x[i]), F::Apply being a template over ComputeType<T>.
template <typename F, typename T>
void MapOne(const Tensor& x, Tensor& out) {
  const std::span<const T> from = x.data<T>();
  const std::span<T> to = out.mutable_data<T>();
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<T>(F::Apply(static_cast<ComputeType<T>>(from[i])));
  }
}

template <typename F>
absl::Status MapFloats(const ReferenceContext& c) {
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    MapOne<F, typename decltype(tag)::type>(c.inputs[0], c.outputs[0]);
    return absl::OkStatus();
  });
}

// out = F::Apply<T>(a, b) with broadcasting; F gets elements widened to ComputeType<T>, and T.
template <typename F, typename T, typename R>
void MapTwo(const Tensor& a, const Tensor& b, Tensor& out) {
  const T* x = a.data<T>().data();
  const T* y = b.data<T>().data();
  R* to = out.mutable_data<R>().data();
  const Shape& space = out.shape();
  WalkIndices<3>(
      space,
      {BroadcastStrides(a.shape(), space), BroadcastStrides(b.shape(), space), DenseStrides(space)},
      [&](const std::array<int64_t, 3>& at) {
        using C = ComputeType<T>;
        to[at[2]] = static_cast<R>(
            F::template Apply<T>(static_cast<C>(x[at[0]]), static_cast<C>(y[at[1]])));
      });
}

}  // namespace millrace

#endif  // MILLRACE_OPS_ELEMENTWISE_H_
