// The explicit list of operators. Adding one: write its file in ops/defs/, add its line here.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/strings.h"
#include "ops/op_def.h"

namespace millrace {

#define MILLRACE_OPS(OP)          \
  OP(AddOp)                       \
  OP(ArgMaxOp)                    \
  OP(AveragePoolOp)               \
  OP(BatchNormalizationOp)        \
  OP(CastOp)                      \
  OP(CommAllReduceOp)             \
  OP(ConcatOp)                    \
  OP(ConvOp)                      \
  OP(ConvTransposeOp)             \
  OP(DivOp)                       \
  OP(ErfOp)                       \
  OP(ExpOp)                       \
  OP(ExpandOp)                    \
  OP(FlattenOp)                   \
  OP(GRUOp)                       \
  OP(GatherOp)                    \
  OP(GeluOp)                      \
  OP(GemmOp)                      \
  OP(GlobalAveragePoolOp)         \
  OP(GlobalLpPoolOp)              \
  OP(GlobalMaxPoolOp)             \
  OP(GradAveragePoolOp)           \
  OP(GradBatchNormalizationOp)    \
  OP(GradConvInputOp)             \
  OP(GradConvWeightOp)            \
  OP(GradGRUOp)                   \
  OP(GradGatherOp)                \
  OP(GradLRNOp)                   \
  OP(GradLSTMOp)                  \
  OP(GradMaxPoolOp)               \
  OP(GradRNNOp)                   \
  OP(GreaterOp)                   \
  OP(GroupNormalizationOp)        \
  OP(IdentityOp)                  \
  OP(IfOp)                        \
  OP(InstanceNormalizationOp)     \
  OP(LRNOp)                       \
  OP(LSTMOp)                      \
  OP(LayerNormalizationOp)        \
  OP(LoopOp)                      \
  OP(LpNormalizationOp)           \
  OP(LpPoolOp)                    \
  OP(MatMulOp)                    \
  OP(MaxPoolOp)                   \
  OP(MaxUnpoolOp)                 \
  OP(MeanVarianceNormalizationOp) \
  OP(MulOp)                       \
  OP(NegOp)                       \
  OP(NonZeroOp)                   \
  OP(RMSNormalizationOp)          \
  OP(RNNOp)                       \
  OP(ReduceMeanOp)                \
  OP(ReduceSumOp)                 \
  OP(ReluOp)                      \
  OP(ReshapeOp)                   \
  OP(ScanOp)                      \
  OP(SigmoidOp)                   \
  OP(SoftmaxOp)                   \
  OP(SplitOp)                     \
  OP(SqrtOp)                      \
  OP(SubOp)                       \
  OP(TanhOp)                      \
  OP(TransposeOp)                 \
  OP(WhereOp)

#define DECLARE(op) OpDef op();
MILLRACE_OPS(DECLARE)
#undef DECLARE

namespace {

struct OpTable {
  std::vector<OpDef> ops;          // sorted by name
  std::vector<std::string> names;  // likewise
  absl::flat_hash_map<absl::string_view, const OpDef*> by_name;
  OpTraitsTable traits;
};

OpTable MakeOpTable() {
  OpTable table;
#define MAKE(op) table.ops.push_back(op());
  MILLRACE_OPS(MAKE)
#undef MAKE
  std::sort(table.ops.begin(), table.ops.end(),
            [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (const OpDef& op : table.ops) {
    MILLRACE_CHECK(op.infer != nullptr);
    MILLRACE_CHECK(table.by_name.emplace(op.name, &op).second);  // one op a name
    table.names.push_back(op.name);
    table.traits.emplace(op.name, op.traits);
  }
  return table;
}

const OpTable& Table() {
  static const OpTable& table = *new OpTable(MakeOpTable());
  return table;
}

}  // namespace

std::span<const OpDef> AllOps() { return Table().ops; }

const OpDef* FindOp(std::string_view name) {
  const auto it = Table().by_name.find(AbslView(name));
  return it == Table().by_name.end() ? nullptr : it->second;
}

std::string DidYouMeanOp(std::string_view name) { return DidYouMean(name, Table().names); }

const OpTraitsTable& AllOpTraits() { return Table().traits; }

}  // namespace millrace
