#include <cstring>

#include "graph/strings.h"
#include "ops/gradient.h"
#include "ops/index_walk.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// The permutation: dim d of the result is dim perm[d] of the input. Absent: dims reversed.
absl::StatusOr<std::vector<int64_t>> PermOf(const Attrs& attrs, int rank) {
  std::vector<int64_t> perm = attrs.Ints("perm");
  if (attrs.Find("perm") == nullptr) {
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  }
  if (static_cast<int>(perm.size()) != rank) {
    return BadInputError(StrCat("'perm' has ", perm.size(), " entries for rank ", rank));
  }
  std::vector<bool> seen(rank, false);
  for (int64_t p : perm) {
    if (p < 0 || p >= rank || seen[p]) {
      return BadInputError(StrCat("'perm' is no permutation of 0 to ", rank - 1, ": ", p,
                                  p >= 0 && p < rank ? " comes twice" : " is out of range"));
    }
    seen[p] = true;
  }
  return perm;
}

absl::Status Infer(InferContext& c) {
  const Shape& from = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, PermOf(c.attrs(), from.rank()));
  Shape shape;
  for (int64_t p : perm) shape.push_back(from[static_cast<int>(p)]);
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  Tensor& y = c.outputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, PermOf(c.attrs, x.shape().rank()));
  const Shape dense = DenseStrides(x.shape());
  Shape strides;
  for (int64_t p : perm) strides.push_back(dense[static_cast<int>(p)]);
  const int64_t size = SizeOf(x.dtype());
  std::byte* to = y.mutable_bytes();
  WalkIndices<2>(y.shape(), {strides, DenseStrides(y.shape())},
                 [&](const std::array<int64_t, 2>& at) {
                   std::memcpy(to + at[1] * size, x.bytes() + at[0] * size, size);
                 });
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const int rank = f.input_type(0).shape.rank();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, PermOf(f.attrs(), rank));
  std::vector<int64_t> inverse(rank);
  for (int d = 0; d < rank; ++d) inverse[perm[d]] = d;
  if (f.wants(0)) f.set_grad(0, Transpose(f.output_grad(0), inverse));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<std::vector<int64_t>> perm = PermOf(query.attrs, shape.rank());
  if (!perm.ok()) return rules;
  for (int d = 0; d < shape.rank(); ++d) {
    const int from = static_cast<int>((*perm)[d]);
    if (!Divisible(shape, from)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", from));
    rule.inputs[0] = ShardDim(from);
    rule.outputs[0] = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace

OpDef TransposeOp() {
  return {.name = "Transpose",
          .doc = "Dims permuted",
          .inputs = {{.name = "data", .same_as = "T"}},
          .outputs = {{.name = "transposed", .same_as = "T"}},
          .attrs = {{.name = "perm",
                     .kind = AttrKind::kInts,
                     .doc = "dim d of the result is dim perm[d] of the input; absent: reversed"}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
