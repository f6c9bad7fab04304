// The op list as data: what must hold of every OpDef, and of the tables made from them.
#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "graph/fused_program.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::MakeAttrs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

bool IsComputed(const OpDef& op) {
  return op.traits.control_flow == ControlFlow::kNone && op.traits.comm == CommKind::kNone;
}

TEST(OpList, IsSortedByNameWithoutDuplicates) {
  const auto ops = AllOps();
  for (size_t i = 1; i < ops.size(); ++i) EXPECT_LT(ops[i - 1].name, ops[i].name);
}

TEST(OpList, EveryOpIsWhole) {
  for (const OpDef& op : AllOps()) {
    SCOPED_TRACE(op.name);
    EXPECT_FALSE(op.doc.empty());
    EXPECT_FALSE(op.outputs.empty());
    EXPECT_NE(op.infer, nullptr);
    EXPECT_EQ(op.reference != nullptr, IsComputed(op));
    EXPECT_EQ(FindOp(op.name), &op);
  }
}

// What tier 1 lacks is missing on purpose; the op's file says why.
TEST(OpList, TierOneHasGradientsAndShardingRulesButForKnownOps) {
  std::vector<std::string> no_gradient, no_sharding;
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(op.tier == 1 || op.tier == 2) << op.name;
    if (op.tier != 1) continue;
    const bool of_training = op.name.find('.') != std::string::npos;  // grad.*, ..., fused.*
    if (op.gradient == nullptr && !of_training) no_gradient.push_back(op.name);
    // Graphs are cut before their nodes are fused.
    if (op.sharding == nullptr && !op.name.starts_with("fused.")) no_sharding.push_back(op.name);
  }
  EXPECT_THAT(no_gradient, ElementsAre("ConstantOfShape", "If", "Loop", "NonZero", "Range", "Scan",
                                       "Shape", "Size"));
  EXPECT_THAT(no_sharding, ElementsAre("ConstantOfShape", "If", "Loop", "NonZero", "Range", "Scan",
                                       "Shape", "Size"));
}

TEST(OpList, SignaturesAreSound) {
  for (const OpDef& op : AllOps()) {
    SCOPED_TRACE(op.name);
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      bool optional = false;
      for (size_t i = 0; i < operands->size(); ++i) {
        const OperandSpec& spec = (*operands)[i];
        EXPECT_FALSE(spec.name.empty());
        EXPECT_TRUE(!spec.variadic || i + 1 == operands->size());
        EXPECT_TRUE(spec.optional || !optional) << "required after optional";
        optional |= spec.optional;
      }
    }
    std::set<std::string> names;
    for (const AttrSpec& attr : op.attrs) {
      EXPECT_TRUE(names.insert(attr.name).second) << attr.name;
      EXPECT_FALSE(attr.required && attr.default_value.has_value()) << attr.name;
      if (attr.default_value.has_value()) {
        EXPECT_EQ(attr.default_value->index(), static_cast<size_t>(attr.kind)) << attr.name;
      }
    }
  }
}

TEST(OpList, TraitsNameOperandsThereAre) {
  for (const OpDef& op : AllOps()) {
    SCOPED_TRACE(op.name);
    for (const InPlacePair& pair : op.traits.in_place) {
      EXPECT_NE(OperandAt(op.outputs, pair.output), nullptr);
      EXPECT_NE(OperandAt(op.inputs, pair.input), nullptr);
    }
    for (int i : op.traits.host_inputs) EXPECT_NE(OperandAt(op.inputs, i), nullptr);
    EXPECT_EQ(op.traits.control_flow == ControlFlow::kIf, op.subgraphs.size() == 2);
  }
  for (const OpDef& op : AllOps()) {
    for (int i : op.type_only_inputs) EXPECT_NE(OperandAt(op.inputs, i), nullptr) << op.name;
  }
  EXPECT_EQ(AllOpTraits().size(), AllOps().size());
  EXPECT_THAT(AllOpTraits().at("Reshape").host_inputs, ElementsAre(1));
  EXPECT_TRUE(AllOpTraits().at("NonZero").host_call);
}

TEST(OpList, ScalarOpsAreThoseOfFusedPrograms) {
  std::vector<std::string> known;
  for (int i = 0; i <= static_cast<int>(ScalarOp::kFma); ++i) {
    known.emplace_back(ScalarOpName(static_cast<ScalarOp>(i)));
  }
  for (const OpDef& op : AllOps()) {
    if (op.scalar_op.empty()) continue;
    EXPECT_THAT(known, Contains(op.scalar_op)) << op.name;
    EXPECT_EQ(op.fusion, FusionClass::kElementwise) << op.name;
  }
}

TEST(OpList, TestsThatHoldOfAllOpsSeeEachOfThem) {
  std::set<std::string> expected, found;
  for (const OpDef& op : AllOps()) {
    if (IsComputed(op)) expected.insert(op.name);
  }
  for (const optest::OpCase& c : optest::OpCases()) found.insert(c.op);
  EXPECT_EQ(found, expected);
}

TEST(OpList, UnknownNamesGetTheNearestOne) {
  EXPECT_EQ(FindOp("Rellu"), nullptr);
  EXPECT_EQ(DidYouMeanOp("Rellu"), "did you mean 'Relu'?");
  EXPECT_EQ(DidYouMeanOp("Zzzzzz"), "");
}

TEST(WithDefaults, FillsWhatIsMissingAndKeepsWhatIsThere) {
  const OpDef& op = *FindOp("Gemm");
  Attrs storage;

  const Attrs given = MakeAttrs({{"alpha", 2.0}});
  EXPECT_EQ(WithDefaults(op, given, storage),
            MakeAttrs({{"alpha", 2.0}, {"beta", 1.0}, {"transA", false}, {"transB", false}}));

  EXPECT_EQ(WithDefaults(op, {}, storage).Float("alpha", 0), 1.0);

  const Attrs complete =
      MakeAttrs({{"alpha", 2.0}, {"beta", 3.0}, {"transA", true}, {"transB", false}});
  EXPECT_EQ(&WithDefaults(op, complete, storage), &complete) << "nothing to fill, nothing copied";
}

NodeQuery Query(std::string op, Attrs attrs, std::vector<Shape> inputs, Shape output) {
  NodeQuery query{std::move(op), std::move(attrs), {}, {TensorType{DType::kF32, output}}};
  for (const Shape& shape : inputs) query.inputs.push_back(TensorType{DType::kF32, shape});
  return query;
}

TEST(WorkOf, CountsMultiplyAddsTwice) {
  const Work work = WorkOf(Query("MatMul", {}, {{8, 3}, {3, 5}}, {8, 5}));
  EXPECT_EQ(work.flops, 2 * 8 * 5 * 3);
  EXPECT_EQ(work.bytes, 4 * (8 * 3 + 3 * 5 + 8 * 5));

  const Work conv = WorkOf(Query("Conv", MakeAttrs({{"group", int64_t{2}}}),
                                 {{1, 4, 5, 5}, {6, 2, 3, 3}, {6}}, {1, 6, 3, 3}));
  EXPECT_EQ(conv.flops, 2 * (6 * 3 * 3) * (2 * 3 * 3) + 6 * 3 * 3);
}

TEST(WorkOf, ElementwiseAndReductionsByElements) {
  EXPECT_EQ(WorkOf(Query("Exp", {}, {{2, 3}}, {2, 3})).flops, 6);
  EXPECT_EQ(WorkOf(Query("ReduceMean", {}, {{2, 3}}, {1, 1})).flops, 6);
  EXPECT_EQ(WorkOf(Query("Transpose", {}, {{2, 3}}, {3, 2})).flops, 0);
  EXPECT_EQ(WorkOf(Query("Transpose", {}, {{2, 3}}, {3, 2})).bytes, 48);
}

TEST(WorkOf, GatherMovesOnlyWhatItPicks) {
  NodeQuery query = Query("Gather", {}, {{1000000, 4}, {2}}, {2, 4});
  query.inputs[1]->dtype = DType::kI64;
  EXPECT_EQ(WorkOf(query).bytes, 2 * 8 + 2 * (2 * 4 * 4));
}

TEST(WorkOf, IsNothingForUnknownOpsAndUnwantedResults) {
  EXPECT_EQ(WorkOf(Query("Nope", {}, {{2}}, {2})).bytes, 0);
  NodeQuery query = Query("MatMul", {}, {{8, 3}, {3, 5}}, {8, 5});
  query.outputs[0].reset();
  EXPECT_EQ(WorkOf(query).flops, 0);
}

}  // namespace
}  // namespace millrace
