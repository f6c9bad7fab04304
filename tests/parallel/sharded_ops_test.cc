// Every op with sharding rules, by each of its rules, over meshes of 2, 3, 4 and 2x2 devices, run
// for real: as one device computes it. Where no sum is reordered, to the last bit.
#include <algorithm>
#include <cstring>
#include <set>

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "ops/known_values.h"
#include "passes/parallel/local_node.h"
#include "passes/parallel/lower_shardings.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"
#include "tests/parallel/run_sharded.h"

namespace millrace {
namespace {

using optest::OpCase;
using Kind = AxisSharding::Kind;

// Of f32 where sums are taken in another order.
constexpr double kReorderedTolerance = 2e-4;

struct SingleNode {
  Graph graph;
  std::map<std::string, Tensor> inputs;
};

// The case as a graph: floats as f32 inputs; integers as constants, since they may be shapes or
// axes.
absl::StatusOr<SingleNode> GraphOfCase(const OpCase& c) {
  SingleNode result;
  GraphBuilder builder("case");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& given = c.inputs[i];
    const std::string name = StrCat("in", i);
    if (!given.has_data()) {
      operands.emplace_back();
    } else if (given.dtype() == DType::kF64) {
      const Tensor tensor = optest::Converted(given, DType::kF32);
      operands.push_back(builder.Input(name, tensor.type()));
      result.inputs[name] = tensor;
    } else {
      operands.push_back(builder.Constant(name, given));
    }
  }
  const std::vector<ValueId> outputs =
      builder.AddNode(c.op, operands, c.attrs, "node", c.num_outputs).outputs;
  for (const ValueId id : outputs) builder.Output(id);
  result.graph = std::move(builder).Build();
  MILLRACE_RETURN_IF_ERROR(InferTypes(result.graph));
  return result;
}

// Partial operands would have to be made first, of a sum that is there whole.
bool TakesPartial(const ShardingRule& rule) {
  return std::ranges::any_of(rule.inputs,
                             [](const AxisSharding& a) { return a.kind == Kind::kPartial; });
}

bool KeepsOrder(const OpDef& op, const std::vector<ShardingRule>& rules) {
  const bool moves_or_maps =
      op.fusion == FusionClass::kElementwise || op.fusion == FusionClass::kShape;
  return moves_or_maps && std::ranges::none_of(rules, [](const ShardingRule& rule) {
           return std::ranges::any_of(
               rule.outputs, [](const AxisSharding& a) { return a.kind == Kind::kPartial; });
         });
}

void ExpectSame(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& want,
                bool bitwise) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    const Tensor& mine = got.at(name);
    ASSERT_EQ(mine.type(), tensor.type()) << name;
    if (bitwise) {
      EXPECT_EQ(std::memcmp(mine.bytes(), tensor.bytes(), tensor.size_bytes()), 0) << name;
    } else {
      EXPECT_LE(optest::MaxError(mine, tensor), kReorderedTolerance) << name;
    }
  }
}

class ShardedOpsTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Applies one rule an axis; false where the sizes do not allow it.
  bool Try(const SingleNode& single, const Mesh& mesh, const std::vector<ShardingRule>& rules,
           const ShardedRun& whole) {
    const Node& node = single.graph.nodes[0];
    NodeQuery query = QueryFor(single.graph, NodeId(0));
    KnownValues known(single.graph);
    for (size_t axis = 0; axis < rules.size(); ++axis) {
      const auto cut = CutQuery(query, rules[axis], mesh.axes[axis].size);
      if (!cut.has_value() || !GivesItsParts(single.graph, node, *cut, known)) return false;
      query = *cut;
    }
    ShardingChoice choice{.mesh = mesh, .rules = {rules}};
    // Inputs come as the rule wants them, but for the last: it is whole, and cut on the devices.
    for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!in.valid() || single.graph.value(in).kind != ValueKind::kInput) continue;
      choice.leaves.try_emplace(in, InputSharding(choice, NodeId(0), i));
    }
    for (const bool gathered : {false, true}) {
      if (gathered) {
        for (const ValueId out : single.graph.outputs) choice.outputs[out] = ReplicatedOn(mesh);
      }
      auto lowered = LowerShardings(single.graph, choice);
      EXPECT_TRUE(lowered.ok()) << lowered.status();
      if (!lowered.ok()) return true;
      PlanningOptions options;
      options.rewrites.level = 0;
      options.threads = 1;
      const auto run = RunSharded(*lowered, single.inputs, options);
      EXPECT_TRUE(run.ok()) << run.status();
      if (run.ok()) ExpectSame(run->outputs, whole.outputs, KeepsOrder(*FindOp(node.op), rules));
    }
    return true;
  }
};

TEST_P(ShardedOpsTest, AreWhatOneDeviceComputes) {
  int tried = 0, rules = 0;
  for (const OpCase& c : optest::OpCases()) {
    if (c.op != GetParam()) continue;
    SCOPED_TRACE(c.name);
    auto single = GraphOfCase(c);
    if (!single.ok()) continue;  // no such types in f32
    PlanningOptions options;
    options.rewrites.level = 0;
    options.threads = 1;
    const auto whole = RunSharded(single->graph, single->inputs, options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (const ShardingRule& rule : ShardingRulesOf(QueryFor(single->graph, NodeId(0)))) {
      if (TakesPartial(rule)) continue;
      ++rules;
      SCOPED_TRACE(rule.note);
      for (const int64_t n : {2, 3, 4}) {
        SCOPED_TRACE(StrCat(n, " devices"));
        tried += Try(*single, {{{"a", n}}}, {rule}, *whole);
      }
      SCOPED_TRACE("2x2 devices");
      tried += Try(*single, {{{"a", 2}, {"b", 2}}}, {rule, rule}, *whole);
    }
  }
  if (rules == 0) GTEST_SKIP() << "no rule starts from whole or cut operands";
  EXPECT_GT(tried, 0) << "no case has sizes that can be cut evenly";
}

std::vector<std::string> OpsWithRules() {
  std::vector<std::string> names;
  std::set<std::string> cases;
  for (const OpCase& c : optest::OpCases()) cases.insert(c.op);
  for (const OpDef& op : AllOps()) {
    if (op.sharding != nullptr && op.tier == 1 && cases.contains(op.name)) names.push_back(op.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, ShardedOpsTest, ::testing::ValuesIn(OpsWithRules()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace millrace
