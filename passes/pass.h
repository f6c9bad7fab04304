// A rewrite pass: a named function Graph -> changed?; deterministic, idempotent, runnable alone. It
// records each application and each refusal, so `explain` and `bisect` work on single rewrites.
#ifndef MILLRACE_PASSES_PASS_H_
#define MILLRACE_PASSES_PASS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/machine.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

// One application or refusal of a rewrite.
struct RewriteRecord {
  std::string pass;
  std::string rule;                // within the pass: "drop-identity"
  std::vector<std::string> nodes;  // names before
  std::string result;              // applied: what came of it; refused: why not
  bool applied = false;
};

struct PassContext {
  const MachineSpec* machine = nullptr;
  const Target* target = nullptr;
  std::vector<RewriteRecord> records;

  void Applied(std::string_view rule, std::vector<std::string> nodes, std::string_view result);
  void Refused(std::string_view rule, std::vector<std::string> nodes, std::string_view why);
  std::string_view running_pass;  // set by the pass manager
};

enum class PassStage : uint8_t {
  kSimplify,   // less of the same ops
  kRecognize,  // what library kernels do at once: epilogues, attention
  kFuse,       // what is left between them
};
inline constexpr PassStage kPassStages[] = {PassStage::kSimplify, PassStage::kRecognize,
                                            PassStage::kFuse};

struct Pass {
  std::string name;  // "eliminate-identity"
  std::string doc;   // one line
  // The least optimization level that runs it. 0: plans cannot do without; 1: what always pays;
  // 2: what pays by the cost model; 3: what may take long to find.
  int level = 1;
  absl::StatusOr<bool> (*run)(Graph& graph, PassContext& context) = nullptr;
  // Passes of a stage run when those of the stages before find nothing more, and run along then.
  PassStage stage = PassStage::kSimplify;
};

inline constexpr int kDefaultLevel = 2, kMaxLevel = 3;

struct RunPassesOptions {
  // Also compare the graph before and after a pass that says "not changed". Costs a print each.
  bool catch_lies = false;
  // Called after each pass, changed or not (dumps).
  std::function<absl::Status(const Pass&, const Graph&, bool changed)> after;
};

// In order; the graph verifier and inference run after each pass that changed something. A pass
// that breaks the graph is an InternalError naming it; so is one that says "not changed" and lies.
absl::StatusOr<bool> RunPasses(std::span<const Pass> passes, Graph& graph, PassContext& context,
                               const RunPassesOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PASS_H_
