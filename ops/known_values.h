// What is known of a graph's values while planning: constants, and what follows from constants and
// types alone (Shape -> Gather -> Concat -> Reshape). Nothing is computed before it is asked for,
// and nothing twice. Inference reads shapes, axes and sizes with it; folding writes down what it
// gives; gradient builders ask it for what inference knew.
#ifndef MILLRACE_OPS_KNOWN_VALUES_H_
#define MILLRACE_OPS_KNOWN_VALUES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/control_flow.h"
#include "graph/graph.h"
#include "graph/weights.h"
#include "ops/op_def.h"

namespace millrace {

// Files decide what is asked for, so both sizes and work are bounded.
struct KnownValuesLimits {
  int64_t value_bytes = 32 << 10;  // of one value; larger ones are unknown
  int64_t total_bytes = 4 << 20;   // of all values kept
  double steps = 1 << 20;          // element reads, writes and FLOPs, of all computations together
};

class KnownValues {
 public:
  // For inference: the limits' defaults, and room for each node besides. `graph` is outlived and
  // may gain types and results in between, but what was computed may not change.
  explicit KnownValues(const Graph& graph);
  KnownValues(const Graph& graph, const KnownValuesLimits& limits);
  // Of a body whose input i is `outer`'s value captures[i], where that is valid; same limits.
  KnownValues(const Graph& body, KnownValues& outer, std::span<const ValueId> captures);

  // The value's data; nullopt when they are not known.
  std::optional<Tensor> Of(ValueId id);
  // Why they are not: "it depends on input 'x'".
  std::string WhyUnknown(ValueId id);

 private:
  enum class Why : uint8_t {
    kKnown,
    kUntyped,
    kInput,
    kParam,
    kTooLarge,
    kNotComputable,
    kFailed,
    kTooMuchWork,
  };
  struct Entry {
    Why why = Why::kKnown;
    ValueId cause;  // the value, at or before this one, that is not known for that reason
    Tensor tensor;  // kKnown
  };

  const Entry& Find(ValueId id);
  std::optional<Entry> WithoutInputs(ValueId id);
  Entry OfConstant(ValueId id);
  void Compute(NodeId id);
  void EnterAll(const Node& node, Why why);
  std::vector<Tensor> DataRead(const Node& node) const;
  bool TakeFromBudget(const NodeQuery& query);
  bool Fits(const TensorType& type) const;

  const Graph& graph_;
  KnownValues* const outer_ = nullptr;
  const KnownValuesLimits limits_;
  int64_t bytes_left_;
  double steps_left_;
  absl::flat_hash_map<ValueId, ValueId> captured_;  // body input -> value of outer_
  absl::flat_hash_map<ValueId, Entry> entries_;
  absl::flat_hash_map<ValueId, std::string> failures_;  // messages of kFailed, by cause
  WeightStore weights_;
};

// The op's results depend on its inputs alone, and its reference kernel computes them.
bool IsComputable(const OpDef& op);
// The op reads no data of input i: its type is all that matters.
bool IsTypeOnly(const OpDef& op, int i);

// For each input of a body of `node`, the node's input that it is in every trip; not valid where it
// is something else.
std::vector<ValueId> CapturesOf(const CallForm& form, const Node& node);

}  // namespace millrace

#endif  // MILLRACE_OPS_KNOWN_VALUES_H_
