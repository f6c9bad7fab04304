// DepthToSpace and its inverse, SpaceToDepth: blocks of channels become blocks of pixels. Both are
// a view as six dims, a permutation of them, and a view as four again.
#include <algorithm>
#include <array>
#include <cstring>

#include "graph/strings.h"
#include "ops/dim_maps.h"
#include "ops/index_walk.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// The operand as `view`, permuted by `perm`, is the result.
struct Regrouping {
  Shape view;
  std::array<int64_t, 6> perm = {};
  Shape result;
};

absl::StatusOr<int64_t> BlockSize(const Attrs& attrs, const Shape& shape) {
  if (shape.rank() != 4) {
    return BadInputError(StrCat("the input must be [N,C,H,W], but has rank ", shape.rank()));
  }
  const int64_t block = attrs.Int("blocksize", 0);
  if (block < 1 || block > int64_t{1} << 20) {
    return BadInputError(StrCat("'blocksize' is ", block, ", allowed are 1 to 2^20"));
  }
  return block;
}

absl::StatusOr<Regrouping> ToSpace(const Attrs& attrs, const Shape& x) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t b, BlockSize(attrs, x));
  if (x[1] % (b * b) != 0) {
    return BadInputError(StrCat(x[1], " channels do not divide in blocks of ", b, " x ", b));
  }
  if (std::max(x[2], x[3]) > kMaxBytes / b) return BadInputError("the result is too large");
  const int64_t depth = x[1] / (b * b);
  const Shape result{x[0], depth, x[2] * b, x[3] * b};
  if (attrs.String("mode", "DCR") == "DCR") {
    return Regrouping{{x[0], b, b, depth, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, result};
  }
  return Regrouping{{x[0], depth, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, result};
}

absl::StatusOr<Regrouping> ToDepth(const Attrs& attrs, const Shape& x) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t b, BlockSize(attrs, x));
  if (x[2] % b != 0 || x[3] % b != 0) {
    return BadInputError(StrCat(x[2], " x ", x[3], " pixels do not divide in blocks of ", b));
  }
  if (x[1] > kMaxBytes / (b * b)) return BadInputError("the result is too large");
  return Regrouping{{x[0], x[1], x[2] / b, b, x[3] / b, b},
                    {0, 3, 5, 1, 2, 4},
                    {x[0], x[1] * b * b, x[2] / b, x[3] / b}};
}

using RegroupFn = absl::StatusOr<Regrouping> (*)(const Attrs& attrs, const Shape& shape);

template <RegroupFn kRegroup>
absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Regrouping r, kRegroup(c.attrs(), c.input(0).shape));
  c.set_output(0, {c.input(0).dtype, r.result});
  return absl::OkStatus();
}

template <RegroupFn kRegroup>
absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Regrouping r, kRegroup(c.attrs, c.inputs[0].shape()));
  const Shape dense = DenseStrides(r.view);
  Shape space, strides;
  for (int64_t p : r.perm) {
    space.push_back(r.view[static_cast<int>(p)]);
    strides.push_back(dense[static_cast<int>(p)]);
  }
  const int64_t size = SizeOf(c.outputs[0].dtype());
  std::byte* to = c.outputs[0].mutable_bytes();
  WalkIndices<1>(space, {strides}, [&](const std::array<int64_t, 1>& at) {
    std::memcpy(to, c.inputs[0].bytes() + at[0] * size, size);
    to += size;
  });
  return absl::OkStatus();
}

template <RegroupFn kRegroup>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Regrouping r, kRegroup(f.attrs(), f.input_type(0).shape));
  Shape permuted;
  std::array<int64_t, 6> inverse;
  for (int d = 0; d < 6; ++d) {
    permuted.push_back(r.view[static_cast<int>(r.perm[d])]);
    inverse[r.perm[d]] = d;
  }
  const Term back = Transpose(Reshape(f.output_grad(0), permuted), inverse);
  f.set_grad(0, Reshape(back, f.input_type(0).shape));
  return absl::OkStatus();
}

// Only the batch is left as it is.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  return KeptDimRules(query, {true, false, false, false});
}

template <RegroupFn kRegroup>
OpDef Regroup(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .tier = 2,
          .inputs = {{.name = "input", .same_as = "T", .doc = "[N,C,H,W]"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "blocksize", .kind = AttrKind::kInt, .required = true}},
          .fusion = FusionClass::kShape,
          .infer = Infer<kRegroup>,
          .reference = Reference<kRegroup>,
          .gradient = Gradient<kRegroup>,
          .sharding = Rules};
}

}  // namespace

OpDef DepthToSpaceOp() {
  OpDef op = Regroup<ToSpace>("DepthToSpace", "Blocks of channels become blocks of pixels");
  op.attrs.push_back({.name = "mode",
                      .kind = AttrKind::kString,
                      .default_value = "DCR",
                      .choices = {"DCR", "CRD"},
                      .doc = "which of a channel's number varies slowest: the pixel in the block "
                             "(DCR), or the channel of the result (CRD)"});
  return op;
}

OpDef SpaceToDepthOp() {
  return Regroup<ToDepth>("SpaceToDepth", "Blocks of pixels become blocks of channels");
}

}  // namespace millrace
