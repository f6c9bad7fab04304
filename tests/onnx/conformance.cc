// The suite gives everything as a model's input, the operands that decide shapes too. Millrace
// plans statically, so these must be known while planning: where a case does not run as it is, it
// runs with such inputs as constants, as a user would give them.
#include "tests/onnx/conformance.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "graph/files.h"
#include "graph/strings.h"
#include "ops/onnx/onnx.h"
#include "ops/onnx/proto.h"
#include "ops/op_def.h"
#include "tools/run_graph.h"
#include "tools/compare.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// The suite's own tolerances (onnx.backend.test.loader).
constexpr double kRelativeTolerance = 1e-3, kAbsoluteTolerance = 1e-7;
// It cuts bfloat16 off where it should round: one unit in the last place.
constexpr double kBFloat16Tolerance = 1.0 / 128;

const fs::path kSuite = "/usr/share/libonnx-testdata/data";

// Random numbers are another generator's: only types can be compared.
bool IsRandom(const std::string& name) {
  const bool dropout =
      name.find("training_dropout") != name.npos && name.find("zero_ratio") == name.npos;
  return dropout || name.find("bernoulli") != name.npos || name.find("random") != name.npos;
}

struct Case {
  onnx::ModelProto model;
  std::string path;
  std::map<std::string, Tensor> inputs;
  std::map<std::string, int64_t> symbols;
  std::vector<Tensor> expected;  // !has_data(): no tensor
};

// Values of dynamic dims follow from the inputs.
void BindSymbols(const onnx::ValueInfoProto& input, const Tensor& tensor,
                 std::map<std::string, int64_t>& symbols) {
  const auto& dims = input.type().tensor_type().shape();
  for (int d = 0; d < std::min(dims.dim_size(), tensor.shape().rank()); ++d) {
    if (dims.dim(d).has_dim_value()) continue;
    const std::string& name = dims.dim(d).dim_param();
    symbols[name.empty() ? StrCat(input.name(), "_", d) : name] = tensor.shape()[d];
  }
}

// The CastLike cases with bfloat16 declare another shape than they give.
void DeclareShape(const Tensor& tensor, onnx::ValueInfoProto& input) {
  auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const auto& dim : dims.dim()) {
    if (!dim.has_dim_value()) return;
  }
  dims.clear_dim();
  for (const int64_t dim : tensor.shape().dims()) dims.add_dim()->set_dim_value(dim);
}

// The suite stores bfloat16 as uint16.
Tensor AsDeclared(const onnx::ValueInfoProto& declared, const Tensor& tensor) {
  const int32_t type = declared.type().tensor_type().elem_type();
  if (type != onnx::TensorProto::BFLOAT16 || tensor.dtype() != DType::kU16) return tensor;
  const std::shared_ptr<const std::byte> bytes(std::make_shared<Tensor>(tensor), tensor.bytes());
  return Tensor::Wrap({DType::kBF16, tensor.shape()}, bytes);
}

absl::StatusOr<Case> LoadCase(const std::string& name) {
  Case c;
  c.path = kSuite / name / "model.onnx";
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(c.path));
  if (!c.model.ParseFromString(bytes)) return BadInputError("protobuf cannot parse the model");
  const fs::path data = kSuite / name / "test_data_set_0";
  onnx::GraphProto& graph = *c.model.mutable_graph();
  std::set<std::string> initialized;
  for (const auto& tensor : graph.initializer()) initialized.insert(tensor.name());
  int file = 0;
  for (auto& input : *graph.mutable_input()) {
    if (initialized.contains(input.name())) continue;
    const absl::StatusOr<Tensor> tensor = ReadOnnxTensor(data / StrCat("input_", file++, ".pb"));
    if (!tensor.ok()) continue;  // a sequence, which the model is refused for
    c.inputs[input.name()] = AsDeclared(input, *tensor);
    BindSymbols(input, *tensor, c.symbols);
    DeclareShape(*tensor, input);
  }
  for (int i = 0; i < graph.output_size(); ++i) {
    const absl::StatusOr<Tensor> tensor = ReadOnnxTensor(data / StrCat("output_", i, ".pb"));
    c.expected.push_back(tensor.ok() ? AsDeclared(graph.output(i), *tensor) : Tensor());
  }
  return c;
}

bool HasHostInput(const OpDef& op, int i) {
  return std::find(op.traits.host_inputs.begin(), op.traits.host_inputs.end(), i) !=
         op.traits.host_inputs.end();
}

// Names that nodes, in nested graphs too, read where the host must know the value.
void AddHostOperands(const onnx::GraphProto& graph, std::set<std::string>& names) {
  for (const onnx::NodeProto& node : graph.node()) {
    const OpDef* op = FindOp(node.op_type());
    for (int i = 0; i < node.input_size(); ++i) {
      // Of ops that have another name here, any but the data.
      const bool host = op == nullptr ? i > 0 : HasHostInput(*op, i);
      if (host) names.insert(node.input(i));
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AddHostOperands(attribute.g(), names);
    }
  }
}

// Inputs that may decide a shape: integers, scalars, and operands of the host.
std::map<std::string, Tensor> ShapeInputs(const Case& c) {
  std::set<std::string> host;
  AddHostOperands(c.model.graph(), host);
  std::map<std::string, Tensor> constants;
  for (const auto& [name, tensor] : c.inputs) {
    if (host.contains(name) || IsInteger(tensor.dtype()) || tensor.shape().rank() == 0) {
      constants.emplace(name, tensor);
    }
  }
  return constants;
}

absl::StatusOr<std::vector<Tensor>> Run(const Case& c, std::map<std::string, Tensor> constants) {
  OnnxImportOptions options;
  options.symbols = c.symbols;
  options.constants = constants;
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph,
                            ParseOnnx(c.model.SerializeAsString(), c.path, options));
  std::map<std::string, Tensor> inputs = c.inputs;
  for (const auto& [name, tensor] : constants) inputs.erase(name);
  return RunGraph(graph, inputs);
}

// "" when all agree.
std::string Difference(const Case& c, const std::vector<Tensor>& actual, bool types_only) {
  if (actual.size() != c.expected.size()) return "another number of outputs";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!c.expected[i].has_data()) return StrCat("output ", i, " cannot be read");
    if (actual[i].type() != c.expected[i].type()) {
      return StrCat("output ", i, " is ", ToString(actual[i].type()), "; expected ",
                    ToString(c.expected[i].type()));
    }
    if (types_only) continue;
    const double relative =
        actual[i].dtype() == DType::kBF16 ? kBFloat16Tolerance : kRelativeTolerance;
    const absl::StatusOr<Comparison> comparison =
        Compare(actual[i], c.expected[i], relative, kAbsoluteTolerance);
    if (!comparison.ok()) return std::string(StdView(comparison.status().message()));
    if (comparison->mismatches == 0) continue;
    const int64_t at = comparison->worst;
    return StrCat("output ", i, ": ", comparison->mismatches, " of ", comparison->elements,
                  " elements differ, most at ", IndexText(actual[i].shape(), at), ": ",
                  actual[i].AsDouble(at), "; expected ", c.expected[i].AsDouble(at));
  }
  return "";
}

// The row that a case counts in: the op it is about, which is the only one of its model, or of the
// model that it is an expansion of.
std::string RowOf(const std::string& name, const onnx::ModelProto& model) {
  if (name.starts_with("pytorch-operator/")) return "PyTorch: operators";
  if (name.starts_with("pytorch-converted/")) return "PyTorch: layers";
  if (name.starts_with("simple/")) return "simple models";
  if (name.starts_with("real/")) return "real models";
  const size_t expanded = name.find("_expanded");
  if (expanded != name.npos) {
    onnx::ModelProto original;
    const absl::StatusOr<std::string> bytes =
        ReadFile(kSuite / name.substr(0, expanded) / "model.onnx");
    if (bytes.ok() && original.ParseFromString(*bytes)) {
      return RowOf(name.substr(0, expanded), original);
    }
  }
  return model.graph().node_size() == 0 ? "other" : model.graph().node(0).op_type();
}

// Types beyond tensors of numbers, and the training domain.
std::string OutOfScope(std::string_view message) {
  for (const std::string_view kind : {"sequence", "optional", "string"}) {
    if (message.find(StrCat("is a ", kind)) != message.npos ||
        message.find(StrCat("is an ", kind)) != message.npos ||
        message.find(StrCat("(", kind, "s)")) != message.npos ||
        message.find(StrCat("(", kind, ")")) != message.npos ||
        message.find(StrCat("of type ", kind)) != message.npos) {
      return StrCat(kind, "s");
    }
  }
  if (message.find("ai.onnx.preview.training") != message.npos) return "training domain";
  return "";
}

void Classify(const absl::Status& status, CaseResult& result) {
  result.message = std::string(StdView(status.message()));
  result.outcome = CaseOutcome::kFailed;
  if (ExitCode(status) != 3) return;
  result.reason = OutOfScope(result.message);
  if (!result.reason.empty()) {
    result.outcome = CaseOutcome::kOutOfScope;
    return;
  }
  if (result.message.find("known while planning") != std::string::npos ||
      result.message.find("known only at run time") != std::string::npos) {
    result.reason = "a size that is known only at run time";
    result.outcome = CaseOutcome::kUnsupported;
    return;
  }
  constexpr std::string_view kNotSupported = " not supported: ";
  const size_t ops = result.message.find(kNotSupported);
  if (ops == std::string::npos) return;
  const size_t begin = ops + kNotSupported.size();
  result.reason = result.message.substr(begin, result.message.find(';', begin) - begin);
  result.outcome = CaseOutcome::kUnsupported;
}

}  // namespace

std::vector<std::string> ConformanceCases(const std::string& pattern) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& suite : fs::directory_iterator(kSuite, error)) {
    for (const auto& entry : fs::directory_iterator(suite.path(), error)) {
      const std::string name = fs::relative(entry.path(), kSuite);
      if (!fs::exists(entry.path() / "model.onnx")) continue;  // to be had from the network
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

CaseResult RunConformanceCase(const std::string& name) {
  CaseResult result;
  result.name = name;
  const absl::StatusOr<Case> c = LoadCase(name);
  if (!c.ok()) {
    result.message = std::string(StdView(c.status().message()));
    return result;
  }
  result.row = RowOf(name, c->model);
  absl::StatusOr<std::vector<Tensor>> outputs = Run(*c, {});
  if (!outputs.ok()) {
    const std::map<std::string, Tensor> constants = ShapeInputs(*c);
    if (!constants.empty()) outputs = Run(*c, constants);
  }
  if (!outputs.ok()) {
    Classify(outputs.status(), result);
    return result;
  }
  result.message = Difference(*c, *outputs, IsRandom(name));
  result.outcome = result.message.empty() ? CaseOutcome::kPassed : CaseOutcome::kFailed;
  return result;
}

}  // namespace millrace
