// What older exporters spell out in many nodes, recognized as the one op that means it. A
// recognizer matches an expression from its last node (the sink) backwards; what all have in common
// is here: that inner values are read by nobody else, and nothing is asked of them, that all is f32
// (in narrower types every node rounds, the op does not), and that the target has a fast kernel for
// the op. The sink becomes the op, the others go.
#ifndef MILLRACE_PASSES_SPELLING_H_
#define MILLRACE_PASSES_SPELLING_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/pass.h"

namespace millrace {

// The nodes of an expression, as a recognizer takes them.
class Spelling {
 public:
  Spelling(const Graph& graph, std::span<const uint8_t> kept) : graph_(graph), kept_(kept) {}

  const Graph& graph() const { return graph_; }
  const std::vector<NodeId>& nodes() const { return nodes_; }  // the sink first, none twice

  // The node that gives `value`, if it is of this op; it is part of the expression then. nullptr:
  // another value.
  const Node* Take(ValueId value, std::string_view op);
  // Gives back the nodes taken since there were `count`: the expression is another one.
  void TakeBack(size_t count) { nodes_.resize(count); }

  // Operands of the binary `op` that gives `value`, the one that `is_left` accepts first, in either
  // order. Taken when there are such.
  template <typename Predicate>
  std::optional<ValueId> TakeOther(ValueId value, std::string_view op, Predicate is_left);

  // The one element of a constant.
  std::optional<double> Scalar(ValueId value) const;
  // That the constant is the nearest f32 to `expected`, or off by the last digit it was written
  // with.
  bool IsScalar(ValueId value, double expected) const;

 private:
  const Graph& graph_;
  std::span<const uint8_t> kept_;  // by node: not rewritten away
  std::vector<NodeId> nodes_;
};

template <typename Predicate>
std::optional<ValueId> Spelling::TakeOther(ValueId value, std::string_view op, Predicate is_left) {
  const size_t before = nodes_.size();
  const Node* node = Take(value, op);
  if (node == nullptr || node->inputs.size() != 2) return std::nullopt;
  const size_t with_node = nodes_.size();
  for (const int left : {0, 1}) {
    if (is_left(node->inputs[left])) return node->inputs[1 - left];
    TakeBack(with_node);
  }
  TakeBack(before);
  return std::nullopt;
}

// What an expression is.
struct RecognizedOp {
  std::string rule;  // "layer-normalization"
  std::string op;
  std::vector<ValueId> inputs;
  Attrs attrs = {};
  std::string why_not = {};  // it is none, though it looks like one; empty: it is
};

// Takes the expression that ends with node `sink`, which is part of `spelling` already.
using RecognizeFn = std::optional<RecognizedOp> (*)(Spelling& spelling, const Node& sink);

// Rewrites what any of `recognizers` recognizes, nested graphs included; the largest expressions
// first: sinks are looked at from the last node on.
absl::StatusOr<bool> RecognizeSpellings(Graph& graph, PassContext& context,
                                        std::span<const RecognizeFn> recognizers);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SPELLING_H_
