// The explicit list of operators. Adding one: write its file in ops/defs/, add its line here.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/strings.h"
#include "ops/op_def.h"

namespace millrace {

// Not aligned, so that a line does not change with its neighbours.
// clang-format off
#define MILLRACE_OPS(OP) \
  OP(AbsOp) \
  OP(AcosOp) \
  OP(AcoshOp) \
  OP(AddOp) \
  OP(AffineGridOp) \
  OP(AndOp) \
  OP(ArgMaxOp) \
  OP(ArgMinOp) \
  OP(AsinOp) \
  OP(AsinhOp) \
  OP(AtanOp) \
  OP(AtanhOp) \
  OP(AveragePoolOp) \
  OP(BatchNormalizationOp) \
  OP(BernoulliOp) \
  OP(BitShiftOp) \
  OP(BitwiseAndOp) \
  OP(BitwiseNotOp) \
  OP(BitwiseOrOp) \
  OP(BitwiseXorOp) \
  OP(BlackmanWindowOp) \
  OP(CastLikeOp) \
  OP(CastOp) \
  OP(CeilOp) \
  OP(CeluOp) \
  OP(CenterCropPadOp) \
  OP(ClipOp) \
  OP(Col2ImOp) \
  OP(CommAllGatherOp) \
  OP(CommAllReduceOp) \
  OP(CommAllToAllOp) \
  OP(CommBroadcastOp) \
  OP(CommReduceScatterOp) \
  OP(CompressOp) \
  OP(ConcatOp) \
  OP(ConstantOfShapeOp) \
  OP(ConvIntegerOp) \
  OP(ConvOp) \
  OP(ConvTransposeOp) \
  OP(CosOp) \
  OP(CoshOp) \
  OP(CumSumOp) \
  OP(DeformConvOp) \
  OP(DepthToSpaceOp) \
  OP(DequantizeLinearOp) \
  OP(DetOp) \
  OP(DftOp) \
  OP(DivOp) \
  OP(DropoutOp) \
  OP(DynamicQuantizeLinearOp) \
  OP(EinsumOp) \
  OP(EluOp) \
  OP(EqualOp) \
  OP(ErfOp) \
  OP(ExpOp) \
  OP(ExpandOp) \
  OP(EyeLikeOp) \
  OP(FlattenOp) \
  OP(FloorOp) \
  OP(FusedAttentionOp) \
  OP(FusedConvOp) \
  OP(FusedMatMulOp) \
  OP(FusedPrepackOp) \
  OP(FusedProgramOp) \
  OP(GRUOp) \
  OP(GatherElementsOp) \
  OP(GatherNDOp) \
  OP(GatherOp) \
  OP(GeluOp) \
  OP(GemmOp) \
  OP(GlobalAveragePoolOp) \
  OP(GlobalLpPoolOp) \
  OP(GlobalMaxPoolOp) \
  OP(GradAveragePoolOp) \
  OP(GradBatchNormalizationOp) \
  OP(GradConvInputOp) \
  OP(GradConvWeightOp) \
  OP(GradGRUOp) \
  OP(GradGatherOp) \
  OP(GradLRNOp) \
  OP(GradLSTMOp) \
  OP(GradMaxPoolOp) \
  OP(GradNegativeLogLikelihoodLossOp) \
  OP(GradRNNOp) \
  OP(GradResizeOp) \
  OP(GradSoftmaxCrossEntropyLossOp) \
  OP(GreaterOp) \
  OP(GreaterOrEqualOp) \
  OP(GridSampleOp) \
  OP(GroupNormalizationOp) \
  OP(HammingWindowOp) \
  OP(HannWindowOp) \
  OP(HardSigmoidOp) \
  OP(HardSwishOp) \
  OP(HardmaxOp) \
  OP(IdentityOp) \
  OP(IfOp) \
  OP(InstanceNormalizationOp) \
  OP(IsInfOp) \
  OP(IsNaNOp) \
  OP(LRNOp) \
  OP(LSTMOp) \
  OP(LayerNormalizationOp) \
  OP(LeakyReluOp) \
  OP(LessOp) \
  OP(LessOrEqualOp) \
  OP(LogOp) \
  OP(LogSoftmaxOp) \
  OP(LoopOp) \
  OP(LpNormalizationOp) \
  OP(LpPoolOp) \
  OP(MatMulIntegerOp) \
  OP(MatMulOp) \
  OP(MaxOp) \
  OP(MaxPoolOp) \
  OP(MaxRoiPoolOp) \
  OP(MaxUnpoolOp) \
  OP(MeanOp) \
  OP(MeanVarianceNormalizationOp) \
  OP(MelWeightMatrixOp) \
  OP(MinOp) \
  OP(MishOp) \
  OP(ModOp) \
  OP(MulOp) \
  OP(MultinomialOp) \
  OP(NegOp) \
  OP(NegativeLogLikelihoodLossOp) \
  OP(NonMaxSuppressionOp) \
  OP(NonZeroOp) \
  OP(NotOp) \
  OP(OneHotOp) \
  OP(OptimAdagradOp) \
  OP(OptimAdamOp) \
  OP(OptimAdamWOp) \
  OP(OptimRMSPropOp) \
  OP(OptimSGDOp) \
  OP(OrOp) \
  OP(PReluOp) \
  OP(PadOp) \
  OP(PowOp) \
  OP(QLinearConvOp) \
  OP(QLinearMatMulOp) \
  OP(QuantizeLinearOp) \
  OP(RMSNormalizationOp) \
  OP(RNNOp) \
  OP(RandomNormalLikeOp) \
  OP(RandomNormalOp) \
  OP(RandomUniformLikeOp) \
  OP(RandomUniformOp) \
  OP(RangeOp) \
  OP(ReciprocalOp) \
  OP(ReduceL1Op) \
  OP(ReduceL2Op) \
  OP(ReduceLogSumExpOp) \
  OP(ReduceLogSumOp) \
  OP(ReduceMaxOp) \
  OP(ReduceMeanOp) \
  OP(ReduceMinOp) \
  OP(ReduceProdOp) \
  OP(ReduceSumOp) \
  OP(ReduceSumSquareOp) \
  OP(ReluOp) \
  OP(ReshapeOp) \
  OP(ResizeOp) \
  OP(ReverseSequenceOp) \
  OP(RoiAlignOp) \
  OP(RoundOp) \
  OP(ScanOp) \
  OP(ScatterElementsOp) \
  OP(ScatterNDOp) \
  OP(SeluOp) \
  OP(ShapeOp) \
  OP(ShrinkOp) \
  OP(SigmoidOp) \
  OP(SignOp) \
  OP(SinOp) \
  OP(SinhOp) \
  OP(SizeOp) \
  OP(SliceOp) \
  OP(SoftmaxCrossEntropyLossOp) \
  OP(SoftmaxOp) \
  OP(SoftplusOp) \
  OP(SoftsignOp) \
  OP(SpaceToDepthOp) \
  OP(SplitOp) \
  OP(SqrtOp) \
  OP(SqueezeOp) \
  OP(StftOp) \
  OP(SubOp) \
  OP(SumOp) \
  OP(SwishOp) \
  OP(TanOp) \
  OP(TanhOp) \
  OP(ThresholdedReluOp) \
  OP(TileOp) \
  OP(TopKOp) \
  OP(TransposeOp) \
  OP(TriluOp) \
  OP(UniqueOp) \
  OP(UnsqueezeOp) \
  OP(WhereOp) \
  OP(XorOp)
// clang-format on

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

std::string DidYouMeanOp(std::string_view name) {
  const std::string hint = DidYouMean(name, Table().names);
  const size_t dot = name.rfind('.');
  if (!hint.empty() || dot == std::string_view::npos) return hint;
  return DidYouMean(name.substr(dot + 1), Table().names);  // "vendor.Relu"
}

const OpTraitsTable& AllOpTraits() { return Table().traits; }

}  // namespace millrace
