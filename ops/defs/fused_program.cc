// fused.Program: what many small nodes compute, as one scalar program over an index space
// (graph/fused_program.h). The pass fuse-programs makes them.
#include <charconv>

#include "graph/strings.h"
#include "ops/fused_reference.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

constexpr int kMaxFusedOutputs = 8, kMaxFusedInputs = 32;

// "[8,784]", as ToString writes it.
absl::StatusOr<Shape> ParseFusedShape(std::string_view text) {
  const auto fault = [&] { return BadInputError(StrCat("'", text, "' is no shape like [8,784]")); };
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return fault();
  Shape shape;
  const char* at = text.data() + 1;
  const char* end = text.data() + text.size() - 1;
  while (at < end) {
    int64_t dim = 0;
    const auto [stop, error] = std::from_chars(at, end, dim);
    const bool more = stop + 1 < end && *stop == ',';
    if (error != std::errc() || (stop != end && !more) || shape.rank() == kMaxRank) return fault();
    shape.push_back(dim);
    at = more ? stop + 1 : end;
  }
  if (!CheckedNumElements(shape).has_value()) return fault();
  return shape;
}

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const FusedProgram program,
                            ParseFusedProgram(c.attrs().String("program", "")));
  const auto& shapes = std::get<std::vector<std::string>>(*c.attrs().Find("shapes"));
  if (shapes.size() != program.outputs.size()) {
    return BadInputError(StrCat("'shapes' has ", shapes.size(), " entries, but the program has ",
                                program.outputs.size(), " outputs"));
  }
  if (c.num_outputs() != static_cast<int>(program.outputs.size())) {
    return BadInputError(StrCat("the program has ", program.outputs.size(),
                                " outputs, but the node has ", c.num_outputs()));
  }
  std::vector<TensorType> inputs, outputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  for (size_t i = 0; i < shapes.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Shape shape, ParseFusedShape(shapes[i]));
    outputs.push_back({program.outputs[i].dtype, shape});
  }
  MILLRACE_RETURN_IF_ERROR(CheckFusedOperands(program, inputs, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) c.set_output(static_cast<int>(i), outputs[i]);
  return absl::OkStatus();
}

// Results are written when a whole group of points is computed, and one may lie on an operand that
// later points read again: the reference keeps them apart.
absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const FusedProgram program,
                            ParseFusedProgram(c.attrs.String("program", "")));
  std::vector<Tensor> results;
  for (const Tensor& output : c.outputs) {
    Tensor& result = results.emplace_back();
    if (output.has_data()) {
      MILLRACE_ASSIGN_OR_RETURN(result, Tensor::Allocate(output.type()));
    }
  }
  MILLRACE_RETURN_IF_ERROR(EvaluateFusedProgram(program, c.inputs, results));
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].has_data()) continue;
    std::copy_n(results[i].bytes(), results[i].size_bytes(), c.outputs[i].mutable_bytes());
  }
  return absl::OkStatus();
}

// Each instruction at each point it varies over is one.
Work FusedWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 0;
  const absl::StatusOr<FusedProgram> program = ParseFusedProgram(query.attrs.String("program", ""));
  if (!program.ok()) return work;
  double points = 1;
  for (const IndexDim& dim : program->dims) points *= static_cast<double>(dim.size);
  for (const ScalarInstruction& s : program->instructions) {
    if (s.op > ScalarOp::kIndex) work.flops += points;
  }
  return work;
}

// A result may lie on any operand of its type.
std::vector<InPlacePair> AnyInPlace() {
  std::vector<InPlacePair> pairs;
  for (int output = 0; output < kMaxFusedOutputs; ++output) {
    for (int input = 0; input < kMaxFusedInputs; ++input) pairs.push_back({output, input});
  }
  return pairs;
}

}  // namespace

OpDef FusedProgramOp() {
  return {.name = "fused.Program",
          .doc = "A scalar program at each point of an index space",
          .inputs = {{.name = "operands",
                      .optional = true,
                      .variadic = true,
                      .doc = "the operands of the program, in order"}},
          .outputs = {{.name = "results", .variadic = true, .doc = "the outputs of the program"}},
          .attrs = {{.name = "program",
                     .kind = AttrKind::kString,
                     .required = true,
                     .doc = "the text of a FusedProgram"},
                    {.name = "shapes",
                     .kind = AttrKind::kStrings,
                     .required = true,
                     .doc = "the shape of each result: [8,784]"}},
          .traits = {.in_place = AnyInPlace()},
          .infer = Infer,
          .reference = Reference,
          .work = FusedWork};
}

}  // namespace millrace
