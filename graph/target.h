// Target: what a backend can do, asked by planners and answered as plain data. A target answers
// without its hardware. Every Launch in a plan names a variant that the target offered; nothing is
// chosen at run time.
#ifndef MILLRACE_GRAPH_TARGET_H_
#define MILLRACE_GRAPH_TARGET_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/status.h"

namespace millrace {

// One op with concrete types. Omitted operands have no type.
struct NodeQuery {
  std::string op;
  Attrs attrs;
  std::vector<std::optional<TensorType>> inputs, outputs;
  // By input: the elements of integer operands that are small constants (axes, starts, sizes).
  // Kernels and sharding rules may depend on them, but must do without: nobody has to know.
  std::map<int, std::vector<int64_t>> known = {};
  bool operator==(const NodeQuery&) const = default;
};
inline constexpr int64_t kMaxKnownElements = 64;
NodeQuery QueryFor(const Graph& graph, NodeId node);
// A query as a compact JSON object, "op", "attrs", "inputs", "outputs" and "known", and back.
std::string QueryToJson(const NodeQuery& query);
absl::StatusOr<NodeQuery> ParseQueryJson(std::string_view json);

// One kernel the backend has for a query.
struct KernelVariant {
  std::string name;  // "reference", "onednn.jit:avx512_core"
  std::vector<Layout> in_layouts, out_layouts;
  bool strided = false;  // operands may have strides (last dim dense)
  int64_t scratch_bytes = 0;
  int64_t packed_bytes = 0;            // of the operand or result that is kPacked
  std::vector<int> prepack;            // inputs that may come as kPacked, if constant
  std::vector<std::string> epilogues;  // scalar ops it can apply to its result
  int threads = 0;                     // 0: any team size
  bool on_host = false;                // runs on the host although the device is not one
  bool capturable = true;              // may be part of a captured graph
  bool deterministic = true;
  double flops = 0, bytes = 0;  // work, for the cost model
  double time_us = 0;           // measured; 0: unknown
  bool operator==(const KernelVariant&) const = default;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view device_kind() const = 0;  // "cpu", "cuda"
  // Best first; empty when the backend has no kernel for it.
  virtual std::vector<KernelVariant> Variants(const NodeQuery& query) const = 0;
};

// A target's answers as a file: what was asked and what it said. Planning from such a file needs
// neither the backend's library nor its hardware. JSON: "millrace-target" 1.0.
class SavedTarget : public Target {
 public:
  explicit SavedTarget(std::string device_kind) : device_kind_(std::move(device_kind)) {}

  // Replaces an earlier answer to the same question; false if there was one.
  bool Add(NodeQuery query, std::vector<KernelVariant> variants);
  std::string_view device_kind() const override { return device_kind_; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override;

  std::string ToJson() const;
  static absl::StatusOr<SavedTarget> Parse(std::string_view json, std::string_view file);

 private:
  std::string device_kind_;
  std::map<std::string, std::pair<NodeQuery, std::vector<KernelVariant>>> answers_;  // by key text
};

// `target`'s answers for every node of `graph` (nested graphs included).
SavedTarget SaveTarget(const Target& target, const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TARGET_H_
