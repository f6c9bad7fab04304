// Scan of opset 8, which runs its body over each element of a batch.
#include "graph/strings.h"
#include "ops/onnx/conversion.h"

namespace millrace {
namespace {

// All operands have a batch dim first, final states and stacks too: that is a Scan over the batch,
// without states of its own, whose body is the Scan of one element.
absl::Status BatchedScan(Conversion& c) {
  if (c.HasInput(0)) return BadInputError("'sequence_lens' is not supported");
  if (c.node.inputs.empty() || c.node.subgraphs.size() != 1) {
    return BadInputError("has no operands, or no 'body'");
  }
  c.node.inputs.erase(c.node.inputs.begin());
  Attrs inner = c.node.attrs;
  if (const AttrValue* directions = inner.Find("directions")) {
    inner.Set("scan_input_directions", *directions);
    inner.Erase("directions");
  }
  if (c.node.num_captures > 0) inner.Set("num_captures", c.node.num_captures);

  GraphBuilder element(c.node.subgraphs[0].name);
  const Graph& around = c.builder.graph();
  std::vector<ValueId> operands;
  for (const ValueId id : c.node.inputs) {
    if (!id.valid()) return BadInputError("an operand is omitted");
    operands.push_back(element.Input(around.value(id).name, TensorType()));
    element.graph().value(operands.back()).typed = false;
  }
  const int outputs = static_cast<int>(c.node.outputs.size());
  Node& scan = element.AddNode("Scan", operands, std::move(inner), "scan", outputs);
  scan.subgraphs = std::move(c.node.subgraphs);
  const std::vector<ValueId> results = scan.outputs;
  for (const ValueId result : results) element.Output(result);

  c.node.attrs = Attrs();
  c.node.attrs.Set("num_scan_inputs", std::ssize(c.node.inputs) - c.node.num_captures);
  c.node.subgraphs = {{"body", std::move(element).Build()}};
  return absl::OkStatus();
}

constexpr ConversionRule kLoopRules[] = {
    {"Scan", 8, 8, BatchedScan},
};

}  // namespace

std::span<const ConversionRule> LoopRules() { return kLoopRules; }

}  // namespace millrace
