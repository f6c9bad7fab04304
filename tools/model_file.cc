#include "tools/model_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "nlohmann/json.hpp"
#include "ops/infer.h"
#ifdef MILLRACE_HAVE_ONNX
#include "ops/onnx/onnx.h"
#endif

namespace millrace {
namespace {

// Stops parsing at the root object's "format".
class FormatFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& format() const { return format_; }

  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(number_integer_t) override { return Scalar(); }
  bool number_unsigned(number_unsigned_t) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool binary(binary_t&) override { return Scalar(); }
  bool string(string_t& text) override {
    if (is_format_) format_ = text;
    return Scalar();
  }
  bool key(string_t& name) override {
    is_format_ = depth_ == 1 && name == "format";
    return true;
  }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Scalar() { return depth_ > 0 && !is_format_; }
  bool Open() { return ++depth_, !is_format_; }
  bool Close() { return --depth_ > 0; }

  int64_t depth_ = 0;
  bool is_format_ = false;
  std::string format_;
};

}  // namespace

bool IsOnnxFile(const std::string& path) { return path.ends_with(".onnx"); }

absl::StatusOr<ModelFileKind> DetectModelFile(const std::string& path) {
  if (IsOnnxFile(path)) return ModelFileKind::kGraph;
  std::ifstream file(path, std::ios::binary);
  if (!file) return MissingFileError(StrCat("cannot read '", path, "': ", std::strerror(errno)));
  FormatFinder finder;
  nlohmann::json::sax_parse(file, &finder);
  if (finder.format() == "millrace-plan") return ModelFileKind::kPlan;
  if (finder.format().starts_with("millrace-") && finder.format() != "millrace-graph") {
    return BadInputError(StrCat(path,
                                ": /format: a graph or a plan is needed; expected "
                                "\"millrace-graph\" or \"millrace-plan\", found \"",
                                finder.format(), "\""));
  }
  return ModelFileKind::kGraph;
}

absl::StatusOr<std::map<std::string, int64_t>> ParseSymbols(const std::vector<std::string>& sets) {
  std::map<std::string, int64_t> symbols;
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    int64_t value = 0;
    if (equals == 0 || equals == std::string::npos ||
        !absl::SimpleAtoi(set.substr(equals + 1), &value)) {
      return UsageError(StrCat("--set ", set, ": expected NAME=INTEGER, such as N=8"));
    }
    if (!symbols.emplace(set.substr(0, equals), value).second) {
      return UsageError(StrCat("--set ", set, ": '", set.substr(0, equals), "' is set twice"));
    }
  }
  return symbols;
}

void FixSymbols(const std::map<std::string, int64_t>& symbols, Graph& graph) {
  const auto is_number = [](const std::string& dim) { return dim[0] >= '0' && dim[0] <= '9'; };
  for (auto at = graph.symbolic_dims.begin(); at != graph.symbolic_dims.end();) {
    auto& [id, dims] = *at;
    for (std::string& dim : dims) {
      if (const auto found = symbols.find(dim); found != symbols.end()) dim = StrCat(found->second);
    }
    at = std::all_of(dims.begin(), dims.end(), is_number) ? graph.symbolic_dims.erase(at)
                                                          : std::next(at);
  }
  std::erase_if(graph.symbols, [&](const Symbol& symbol) { return symbols.contains(symbol.name); });
}

absl::StatusOr<Graph> LoadInferredGraph(const std::string& path,
                                        const std::vector<std::string>& sets) {
  GraphLoadOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.symbols, ParseSymbols(sets));
  if (IsOnnxFile(path)) {
#ifdef MILLRACE_HAVE_ONNX
    return ImportOnnx(path, {.symbols = options.symbols});
#else
    return UsageError(StrCat(path, ": this build reads no ONNX files (MILLRACE_ONNX is off)"));
#endif
  }
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadGraph(path, options));
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  return graph;
}

}  // namespace millrace
