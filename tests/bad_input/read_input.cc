#include "tests/bad_input/read_input.h"

#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/machine.h"
#include "graph/npy.h"
#include "graph/plan_json.h"
#include "graph/safetensors.h"
#include "graph/strings.h"
#include "graph/target.h"
#include "graph/weights.h"
#include "ops/infer.h"
#ifdef MILLRACE_HAVE_ONNX
#include "ops/onnx/onnx.h"
#endif
#include "runtime/csv_reader.h"

namespace millrace {
namespace {

absl::Status ReadGraphFile(const BadCase& c) {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadGraph(MainFile(c), {.symbols = c.symbols}));
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  Diagnostics diagnostics;
  VerifyWeights(graph, diagnostics);
  return diagnostics.ToStatus();
}

absl::Status ReadSafetensorsFile(const BadCase& c) {
  MILLRACE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(MainFile(c)));
  for (const std::string& name : file.names()) MILLRACE_RETURN_IF_ERROR(file.Get(name).status());
  return absl::OkStatus();
}

absl::Status ReadTargetFile(const BadCase& c) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string json, ReadFile(MainFile(c)));
  return SavedTarget::Parse(json, MainFile(c)).status();
}

}  // namespace

absl::Status ReadInput(const BadCase& c) {
#ifdef MILLRACE_HAVE_ONNX
  if (c.format == "onnx") return ImportOnnx(MainFile(c), {.symbols = c.symbols}).status();
#endif
  if (c.format == "graph") return ReadGraphFile(c);
  if (c.format == "plan") return LoadPlan(MainFile(c)).status();
  if (c.format == "machine") return LoadMachine(MainFile(c)).status();
  if (c.format == "target") return ReadTargetFile(c);
  if (c.format == "safetensors") return ReadSafetensorsFile(c);
  if (c.format == "npy") return ReadNpy(MainFile(c)).status();
  constexpr int64_t kMostNumbers = 2000;
  if (c.format == "csv") return ReadCsv(MainFile(c), 0, 1, kMostNumbers).status();
  return InternalError(StrCat("'", c.format, "' is no format of the corpus"));
}

}  // namespace millrace
