// Activations spelled out:
//
//   Gelu           x * 0.5 * (1 + erf(x / sqrt(2)))
//   Gelu (tanh)    x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   Swish          x * sigmoid(x)
//
// with factors and summands in any order, the division as Div or as a product, the cube as Pow or
// products. Rounded otherwise than node by node.
#include <algorithm>
#include <numbers>

#include "passes/pass_list.h"
#include "passes/spelling.h"

namespace millrace {
namespace {

constexpr int kMaxFactors = 4;

// Factors of a product of products, each Mul taken; x is one, whatever it is a product of.
void TakeFactors(Spelling& spelling, ValueId value, ValueId x, std::vector<ValueId>& factors) {
  const bool opens = value != x && std::ssize(factors) < kMaxFactors;
  const Node* product = opens ? spelling.Take(value, "Mul") : nullptr;
  if (product == nullptr) {
    factors.push_back(value);
    return;
  }
  for (const ValueId input : product->inputs) TakeFactors(spelling, input, x, factors);
}

// Takes one factor out that is the number; false when there is none.
bool DropScalar(const Spelling& spelling, double number, std::vector<ValueId>& factors) {
  const auto found = std::ranges::find_if(
      factors, [&](ValueId factor) { return spelling.IsScalar(factor, number); });
  if (found == factors.end()) return false;
  factors.erase(found);
  return true;
}

// x / sqrt(2).
bool TakeScaledForErf(Spelling& spelling, ValueId value, ValueId* x) {
  if (const Node* quotient = spelling.Take(value, "Div")) {
    *x = quotient->inputs[0];
    return spelling.IsScalar(quotient->inputs[1], std::numbers::sqrt2);
  }
  const std::optional<ValueId> other = spelling.TakeOther(
      value, "Mul", [&](ValueId left) { return spelling.IsScalar(left, 1 / std::numbers::sqrt2); });
  if (other) *x = *other;
  return other.has_value();
}

// 0.044715 x^3.
bool TakeCubicTerm(Spelling& spelling, ValueId value, ValueId x) {
  std::vector<ValueId> factors;
  TakeFactors(spelling, value, x, factors);
  if (!DropScalar(spelling, 0.044715, factors)) return false;
  if (factors.size() == 1) {
    const Node* power = spelling.Take(factors[0], "Pow");
    return power != nullptr && power->inputs[0] == x && spelling.IsScalar(power->inputs[1], 3);
  }
  return factors.size() == 3 && std::ranges::count(factors, x) == 3;
}

// sqrt(2 / pi) * (x + 0.044715 x^3).
bool TakeTanhArgument(Spelling& spelling, ValueId value, ValueId* x) {
  const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const std::optional<ValueId> sum = spelling.TakeOther(
      value, "Mul", [&](ValueId left) { return spelling.IsScalar(left, factor); });
  const Node* add = sum ? spelling.Take(*sum, "Add") : nullptr;
  if (add == nullptr) return false;
  const size_t before = spelling.nodes().size();
  for (const int cube : {1, 0}) {
    *x = add->inputs[1 - cube];
    if (TakeCubicTerm(spelling, add->inputs[cube], *x)) return true;
    spelling.TakeBack(before);
  }
  return false;
}

// 1 + erf(...) or 1 + tanh(...), with what x it is of.
bool TakeGate(Spelling& spelling, ValueId value, ValueId* x, const char** approximate) {
  const std::optional<ValueId> function =
      spelling.TakeOther(value, "Add", [&](ValueId left) { return spelling.IsScalar(left, 1); });
  if (!function) return false;
  if (const Node* erf = spelling.Take(*function, "Erf")) {
    *approximate = "none";
    return TakeScaledForErf(spelling, erf->inputs[0], x);
  }
  const Node* tanh = spelling.Take(*function, "Tanh");
  *approximate = "tanh";
  return tanh != nullptr && TakeTanhArgument(spelling, tanh->inputs[0], x);
}

std::optional<RecognizedOp> RecognizeGelu(Spelling& spelling, const Node& sink) {
  if (sink.op != "Mul") return std::nullopt;
  // x may be a product itself, so that its factors are not those of this one: each way to see the
  // last two or three factors is tried.
  std::vector<std::vector<ValueId>> splits;
  const auto open = [&](int side) {
    const Node* inner = spelling.Take(sink.inputs[side], "Mul");
    if (inner != nullptr)
      splits.push_back({sink.inputs[1 - side], inner->inputs[0], inner->inputs[1]});
    spelling.TakeBack(1);
    return inner;
  };
  for (const int side : {0, 1}) {
    if (open(side) == nullptr) continue;
    std::vector<ValueId> factors = splits.back();
    if (!DropScalar(spelling, 0.5, factors)) continue;
    for (const int gate : {0, 1}) {
      spelling.TakeBack(1);
      spelling.Take(sink.inputs[side], "Mul");
      ValueId x;
      const char* approximate = nullptr;
      if (!TakeGate(spelling, factors[gate], &x, &approximate) || x != factors[1 - gate]) continue;
      RecognizedOp op = {.rule = "gelu", .op = "Gelu", .inputs = {x}};
      op.attrs.Set("approximate", std::string(approximate));
      return op;
    }
  }
  spelling.TakeBack(1);
  return std::nullopt;
}

std::optional<RecognizedOp> RecognizeSwish(Spelling& spelling, const Node& sink) {
  if (sink.op != "Mul") return std::nullopt;
  for (const int side : {0, 1}) {
    spelling.TakeBack(1);
    const Node* gate = spelling.Take(sink.inputs[side], "Sigmoid");
    if (gate == nullptr || gate->inputs[0] != sink.inputs[1 - side]) continue;
    return RecognizedOp{.rule = "swish", .op = "Swish", .inputs = {gate->inputs[0]}};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<bool> RecognizeActivations(Graph& graph, PassContext& context) {
  static constexpr RecognizeFn kRecognizers[] = {RecognizeGelu, RecognizeSwish};
  return RecognizeSpellings(graph, context, kRecognizers);
}

}  // namespace millrace
