// Sharding rules, by what they mean: the operands of each case are cut as a rule says over 2 and 3
// devices, each device runs the op's reference kernel on its part with the same attributes, and the
// results, put together as the rule says, must be those of the whole.
#include <algorithm>
#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::OpCase;
using Kind = AxisSharding::Kind;

constexpr double kShardTolerance = 1e-9;

// Where part i of n of a dim begins: parts differ by at most one.
int64_t Begin(int64_t size, int i, int n) { return size * i / n; }

// Whether the rule promises anything for n devices, as ops/sharding.h says.
bool Applies(const NodeQuery& query, const ShardingRule& rule, int n) {
  std::set<int64_t> cut;
  bool mean = false;
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    if (rule.inputs[i].kind == Kind::kShard) {
      cut.insert(query.inputs[i]->shape[rule.inputs[i].dim]);
    }
  }
  for (size_t i = 0; i < rule.outputs.size(); ++i) {
    if (rule.outputs[i].kind == Kind::kShard) {
      cut.insert(query.outputs[i]->shape[rule.outputs[i].dim]);
    }
    mean |= rule.outputs[i] == AxisSharding{Kind::kPartial, -1, Reduction::kMean};
  }
  if (cut.size() > 1 || (mean && !cut.empty())) {
    return std::all_of(cut.begin(), cut.end(), [n](int64_t size) { return size % n == 0; });
  }
  return cut.empty() || *cut.begin() >= n;
}

// `whole` as n partial values that reduce to it.
std::vector<Tensor> PartialsOf(const Tensor& whole, Reduction reduction, int n) {
  std::vector<Tensor> parts;
  for (int i = 0; i < n; ++i) parts.push_back(optest::RandomTensor(whole.type(), 1000 + i, 0.5, 2));
  for (int64_t e = 0; e < whole.num_elements(); ++e) {
    const int last = static_cast<int>(e % n);  // this part makes the reduction come out right
    double rest = reduction == Reduction::kProd ? 1 : 0;
    for (int i = 0; i < n; ++i) {
      if (i == last) continue;
      const double x = parts[i].AsDouble(e);
      if (reduction == Reduction::kProd) rest *= x;
      if (reduction == Reduction::kSum || reduction == Reduction::kMean) rest += x;
      if (reduction == Reduction::kMax) parts[i].Set(e, whole.AsDouble(e) - x);
      if (reduction == Reduction::kMin) parts[i].Set(e, whole.AsDouble(e) + x);
    }
    const double w = whole.AsDouble(e);
    switch (reduction) {
      case Reduction::kSum:
        parts[last].Set(e, w - rest);
        break;
      case Reduction::kMean:
        parts[last].Set(e, w * n - rest);
        break;
      case Reduction::kProd:
        parts[last].Set(e, w / rest);
        break;
      default:
        parts[last].Set(e, w);
        break;
    }
  }
  return parts;
}

Tensor Reduced(const std::vector<Tensor>& parts, Reduction reduction) {
  Tensor result = optest::Converted(parts[0], parts[0].dtype());
  for (int64_t e = 0; e < result.num_elements(); ++e) {
    double value = parts[0].AsDouble(e);
    for (size_t i = 1; i < parts.size(); ++i) {
      const double x = parts[i].AsDouble(e);
      switch (reduction) {
        case Reduction::kSum:
        case Reduction::kMean:
          value += x;
          break;
        case Reduction::kProd:
          value *= x;
          break;
        case Reduction::kMax:
          value = std::max(value, x);
          break;
        case Reduction::kMin:
          value = std::min(value, x);
          break;
      }
    }
    if (reduction == Reduction::kMean) value /= static_cast<double>(parts.size());
    result.Set(e, value);
  }
  return result;
}

// What each of n devices gets of an operand.
std::vector<Tensor> Distribute(const Tensor& whole, const AxisSharding& sharding, int n) {
  if (sharding.kind == Kind::kPartial) return PartialsOf(whole, sharding.reduction, n);
  std::vector<Tensor> parts(n, whole);
  for (int i = 0; i < n && sharding.kind == Kind::kShard; ++i) {
    const int64_t size = whole.shape()[sharding.dim];
    parts[i] = optest::SliceOf(whole, sharding.dim, Begin(size, i, n), Begin(size, i + 1, n));
  }
  return parts;
}

void ExpectTogether(const std::vector<Tensor>& parts, const AxisSharding& sharding,
                    const Tensor& whole) {
  if (sharding.kind == Kind::kReplicate) {
    for (const Tensor& part : parts) EXPECT_LE(optest::MaxError(part, whole), kShardTolerance);
    return;
  }
  const Tensor together = sharding.kind == Kind::kShard ? optest::Joined(parts, sharding.dim)
                                                        : Reduced(parts, sharding.reduction);
  EXPECT_LE(optest::MaxError(together, whole), kShardTolerance);
}

// An operand that states the result's shape is restated for the local result.
Tensor LocalShape(const Tensor& whole, const AxisSharding& sharding, int i, int n) {
  Shape shape = whole.shape();
  if (sharding.kind == Kind::kShard) {
    const int64_t size = shape[sharding.dim];
    shape[sharding.dim] = Begin(size, i + 1, n) - Begin(size, i, n);
  }
  return Tensor::FromSpan<int64_t>({shape.rank()}, shape.dims());
}

NodeQuery QueryOf(const OpCase& c, const std::vector<Tensor>& outputs) {
  NodeQuery query{c.op, c.attrs, {}, {}};
  for (const Tensor& t : c.inputs) {
    query.inputs.push_back(t.has_data() ? std::optional(t.type()) : std::nullopt);
  }
  for (const Tensor& t : outputs) query.outputs.push_back(t.type());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    if (!t.has_data() || t.dtype() != DType::kI64 || t.shape().rank() > 1) continue;
    std::vector<int64_t>& elements = query.known[static_cast<int>(i)];
    for (int64_t e = 0; e < t.num_elements(); ++e) elements.push_back(t.AsInt64(e));
  }
  return query;
}

// Where a part lies in the whole, for ops that ask (Dropout).
Tensor LocalPlace(const Tensor& whole, const AxisSharding& sharding, int i, int n) {
  const int rank = whole.shape().rank();
  Tensor place = Tensor::Zeros({DType::kI64, {2 * rank}});
  for (int d = 0; d < rank; ++d) {
    const int64_t size = whole.shape()[d];
    const bool cut = sharding.kind == Kind::kShard && sharding.dim == d;
    place.Set(d, cut ? static_cast<double>(Begin(size, i, n)) : 0);
    place.Set(rank + d, static_cast<double>(size));
  }
  return place;
}

void CheckRule(const OpCase& c, const ShardingRule& rule, const std::vector<Tensor>& whole, int n) {
  SCOPED_TRACE(StrCat(c.name, ": ", rule.note, ", ", n, " devices"));
  std::vector<std::vector<Tensor>> operands;  // [operand][device]
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    operands.push_back(Distribute(c.inputs[i], rule.inputs[i], n));
    if (OperandAt(FindOp(c.op)->inputs, static_cast<int>(i))->name != "shape") continue;
    if (c.inputs[i].num_elements() != whole[0].shape().rank()) continue;  // of some dims only
    for (int d = 0; d < n; ++d) operands[i][d] = LocalShape(whole[0], rule.outputs[0], d, n);
  }
  std::vector<std::vector<Tensor>> results(whole.size());  // [result][device]
  for (int d = 0; d < n; ++d) {
    std::vector<Tensor> local;
    for (const auto& operand : operands) local.push_back(operand[d]);
    const auto& specs = FindOp(c.op)->inputs;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name != "place") continue;
      if (local.size() <= i) local.resize(i + 1);
      local[i] = LocalPlace(whole[0], rule.outputs[0], d, n);
    }
    const auto outputs = optest::RunReference(c.op, c.attrs, local, c.num_outputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t o = 0; o < outputs->size(); ++o) results[o].push_back((*outputs)[o]);
  }
  for (size_t o = 0; o < whole.size(); ++o) {
    SCOPED_TRACE(StrCat("result ", o));
    ExpectTogether(results[o], rule.outputs[o], whole[o]);
  }
}

class ShardingTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShardingTest, ShardsTogetherAreTheWhole) {
  int checked = 0;
  for (const OpCase& c : optest::OpCases()) {
    if (c.op != GetParam()) continue;
    const auto whole = optest::RunReference(c.op, c.attrs, c.inputs, c.num_outputs);
    ASSERT_TRUE(whole.ok()) << c.name << ": " << whole.status();
    const NodeQuery query = QueryOf(c, *whole);
    for (const ShardingRule& rule : ShardingRulesOf(query)) {
      ASSERT_EQ(rule.inputs.size(), c.inputs.size()) << c.name << ": " << rule.note;
      ASSERT_EQ(rule.outputs.size(), whole->size()) << c.name << ": " << rule.note;
      EXPECT_FALSE(rule.note.empty()) << c.name;
      for (int n : {2, 3}) {
        if (!Applies(query, rule, n)) continue;
        CheckRule(c, rule, *whole, n);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0) << "no rule was tried";
}

std::vector<std::string> ShardableOps() {
  std::vector<std::string> names;
  for (const OpDef& op : AllOps()) {
    if (op.sharding != nullptr && op.reference != nullptr) names.push_back(op.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, ShardingTest, ::testing::ValuesIn(ShardableOps()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

NodeQuery Query(std::string op, std::vector<Shape> inputs, Shape output, Attrs attrs = {}) {
  NodeQuery query{std::move(op), std::move(attrs), {}, {TensorType{DType::kF32, output}}};
  for (const Shape& shape : inputs) query.inputs.push_back(TensorType{DType::kF32, shape});
  return query;
}

std::vector<std::string> Notes(const NodeQuery& query) {
  std::vector<std::string> notes;
  for (const ShardingRule& rule : ShardingRulesOf(query)) notes.push_back(rule.note);
  return notes;
}

// The rules a planner lives by are there, not merely right where they are.
TEST(ShardingRules, CoverWhatTensorParallelismNeeds) {
  using ::testing::Contains;
  const auto matmul = Notes(Query("MatMul", {{8, 16, 64}, {64, 256}}, {8, 16, 256}));
  for (const char* note : {"split batch dim 0", "split rows", "split output features",
                           "split the inner dim", "pass partial sum of operand 0 through"}) {
    EXPECT_THAT(matmul, Contains(note));
  }
  // Hidden units into attention heads.
  EXPECT_THAT(Notes(Query("Reshape", {{8, 16, 64}, {4}}, {8, 16, 4, 16})),
              Contains("split dim 2, dim 2 of the result"));
  const auto conv = Notes(Query("Conv", {{8, 4, 9, 9}, {6, 4, 3, 3}}, {8, 6, 7, 7}));
  for (const char* note : {"split the batch", "split output channels", "split input channels"}) {
    EXPECT_THAT(conv, Contains(note));
  }
}

TEST(ShardingRules, AreNotMadeUpWhereTheQueryLeavesThemOpen) {
  // Either dim of 4 may have been summed; a cut along one of them would be a guess.
  NodeQuery sum = Query("ReduceSum", {{4, 4}, {1}}, {4});
  for (const ShardingRule& rule : ShardingRulesOf(sum)) {
    EXPECT_EQ(rule.inputs[0].kind, Kind::kPartial) << rule.note;
  }
  sum.known[1] = {0};
  EXPECT_THAT(Notes(sum), ::testing::IsSupersetOf({"split reduced dim 0", "split dim 1"}));
  // Softmax needs its whole axis.
  for (const ShardingRule& rule : ShardingRulesOf(Query("Softmax", {{4, 6}}, {4, 6}))) {
    EXPECT_NE(rule.inputs[0].dim, 1) << rule.note;
  }
}

}  // namespace
}  // namespace millrace
