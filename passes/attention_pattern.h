// Attention as exporters spell it, found in a graph.
#ifndef MILLRACE_PASSES_ATTENTION_PATTERN_H_
#define MILLRACE_PASSES_ATTENTION_PATTERN_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/attention.h"

namespace millrace {

// Q, K or V: what is read, of rank 2 to 4, how its dims lie with dims of 1 in front, and what it is
// multiplied with.
struct HeadOperand {
  ValueId value;
  std::string layout;
  double scale = 1;
};

// score + mask; or, if it chooses, Where(mask, score, hidden), or with the last two the other way
// round.
struct ScoreMask {
  ValueId mask;
  bool chooses = false;
  bool shows = true;  // a choice: the mask says what is seen
  double hidden = 0;  // a choice: what others get; -1e30 at most
};

// The way from the Softmax back to the first product.
struct AttentionScores {
  NodeId product;
  double scale = 1;
  std::vector<ScoreMask> masks;  // one after another
  std::vector<NodeId> nodes;     // from the product on
};

struct AttentionPattern {
  AttentionScores scores;
  HeadOperand q, k, v;
  std::string y_layout = std::string(kHeadsFirst);
  bool causal = false;        // beside the masks that are left
  std::vector<NodeId> nodes;  // all that it is made of; the last gives the result
};

struct AttentionSearch {
  // No two have a node in common, and none reads what lies between the nodes of another.
  std::vector<AttentionPattern> found;
  struct NearMiss {
    NodeId softmax;
    std::string why;  // it is not one
  };
  std::vector<NearMiss> missed;
};

// In the graph itself, not in its nodes' bodies. O(nodes), and a look at each constant mask.
AttentionSearch FindAttention(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ATTENTION_PATTERN_H_
