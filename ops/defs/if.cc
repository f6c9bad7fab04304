// If runs one of two nested graphs. Bodies are closed: what they use from outside comes in as the
// node's inputs after the condition, one to one with each body's inputs.
#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const std::optional<int64_t> count = CheckedNumElements(c.input(0).shape);
  if (count != 1) return BadInputError("the condition must have exactly one element");
  const Graph* then_branch = c.subgraph("then_branch");
  const Graph* else_branch = c.subgraph("else_branch");
  if (then_branch == nullptr || else_branch == nullptr) {
    return BadInputError("the result types need both nested graphs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Value& a = then_branch->value(then_branch->outputs[i]);
    const Value& b = else_branch->value(else_branch->outputs[i]);
    if (a.type != b.type) {
      return BadInputError(StrCat("result ", i, " is ", ToString(a.type), " ('", a.name,
                                  "') in then_branch and ", ToString(b.type), " ('", b.name,
                                  "') in else_branch"));
    }
    c.set_output(i, a.type, a.bounded || b.bounded);
  }
  return absl::OkStatus();
}

// What the bodies do is theirs to say.
Work NoWork(const NodeQuery&) { return {}; }

}  // namespace

OpDef IfOp() {
  return {.name = "If",
          .doc = "The results of then_branch where the condition is true, else of else_branch",
          .inputs = {{.name = "cond", .dtypes = {DType::kBool}, .doc = "one element"},
                     {.name = "captures",
                      .optional = true,
                      .variadic = true,
                      .doc = "the inputs of both nested graphs"}},
          .outputs = {{.name = "outputs", .variadic = true}},
          .subgraphs = {"then_branch", "else_branch"},
          .traits = {.host_inputs = {0}, .control_flow = ControlFlow::kIf},
          .infer = Infer,
          .work = NoWork};
}

}  // namespace millrace
