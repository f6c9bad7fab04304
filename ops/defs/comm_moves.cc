// Collectives that move whole rows: what a device gets are dim 0 of the others' inputs, one device
// after another. (Parts along other dims are brought to the front and back by Reshape and
// Transpose, which planning often makes free.) They run as Collectives of a plan, so there are no
// kernels here.
#include "ops/comm.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// Over how many devices, and that dim 0 is there.
absl::StatusOr<int64_t> PartsOf(const InferContext& c, bool divides) {
  MILLRACE_RETURN_IF_ERROR(CheckMeshAxes(c));
  const int64_t parts = c.attrs().Int("parts", 1);
  if (parts < 1) return BadInputError(StrCat("attribute 'parts' must be at least 1, is ", parts));
  const Shape& shape = c.input(0).shape;
  if (shape.rank() == 0) return BadInputError("X has no dim 0");
  if (divides && shape[0] % parts != 0) {
    return BadInputError(StrCat("dim 0 of X, ", shape[0], ", cannot be cut in ", parts, " parts"));
  }
  return parts;
}

absl::Status InferAllGather(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t parts, PartsOf(c, /*divides=*/false));
  TensorType type = c.input(0);
  if (__builtin_mul_overflow(type.shape[0], parts, &type.shape[0])) {
    return BadInputError("Y is too large");
  }
  c.set_output(0, type);
  return absl::OkStatus();
}

absl::Status InferReduceScatter(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t parts, PartsOf(c, /*divides=*/true));
  TensorType type = c.input(0);
  type.shape[0] /= parts;
  c.set_output(0, type);
  return absl::OkStatus();
}

absl::Status InferAllToAll(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(PartsOf(c, /*divides=*/true).status());
  return InferLikeInput(c);
}

absl::Status InferFromRoot(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckMeshAxes(c));
  if (c.attrs().Int("root", 0) < 0) return BadInputError("attribute 'root' must not be negative");
  return InferLikeInput(c);
}

// Along a mesh axis other than their own: rows are moved, whatever is in them.
std::vector<ShardingRule> RowRules(const NodeQuery& query) {
  constexpr int kRows[] = {0};
  return ElementwiseRulesExcept(query, kRows);
}

OpDef WithRowRules(OpDef op) {
  op.sharding = RowRules;
  return op;
}

}  // namespace

OpDef CommAllGatherOp() {
  return WithRowRules(
      CollectiveOp("comm.AllGather", "X of all devices along mesh axes, joined along dim 0",
                   {MeshAxesAttr(), PartsAttr()}, CommKind::kAllGather, InferAllGather));
}

OpDef CommReduceScatterOp() {
  OpDef op = CollectiveOp(
      "comm.ReduceScatter", "Each device's part, along dim 0, of the reduction of X over devices",
      {MeshAxesAttr(), PartsAttr(), ReductionAttr()}, CommKind::kReduceScatter, InferReduceScatter);
  op.inputs[0].dtypes = NumericTypes();
  return WithRowRules(std::move(op));
}

OpDef CommAllToAllOp() {
  return WithRowRules(CollectiveOp(
      "comm.AllToAll", "Part r of each device's X, along dim 0, for device r: all of them, joined",
      {MeshAxesAttr(), PartsAttr()}, CommKind::kAllToAll, InferAllToAll));
}

OpDef CommBroadcastOp() {
  return WithRowRules(CollectiveOp("comm.Broadcast", "X of one device, on all along mesh axes",
                                   {MeshAxesAttr(),
                                    {.name = "root",
                                     .kind = AttrKind::kInt,
                                     .default_value = int64_t{0},
                                     .doc = "which device, in the order of the axes"}},
                                   CommKind::kBroadcast, InferFromRoot));
}

}  // namespace millrace
