// LinearExpr: base + sum of scale * ((variable + add) mod modulus). The one way in which a plan's
// numbers depend on mesh coordinates and microbatches, so that a plan's size does not depend on how
// many devices an axis has or how often a segment runs.
#ifndef MILLRACE_GRAPH_EXPR_H_
#define MILLRACE_GRAPH_EXPR_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/mesh.h"
#include "graph/status.h"

namespace millrace {

inline constexpr int kMicrobatchVar = -1;  // the running segment's microbatch
inline constexpr int kIterationVar = -2;   // the running loop body's iteration
// Variables >= 0 are this device's coordinate on that mesh axis.

struct LinearTerm {
  int variable = kMicrobatchVar;
  int64_t scale = 1;
  int64_t add = 0;
  int64_t modulus = 0;  // 0: none; otherwise the result of mod lies in [0, modulus)
  bool operator==(const LinearTerm&) const = default;
};

struct LinearExpr {
  int64_t base = 0;
  std::vector<LinearTerm> terms;

  LinearExpr() = default;
  LinearExpr(int64_t constant) : base(constant) {}  // NOLINT: a number is an expression
  bool IsConstant() const { return terms.empty(); }
  bool operator==(const LinearExpr&) const = default;
};

struct ExprVars {
  std::span<const int64_t> coordinates;  // one per mesh axis
  int64_t microbatch = 0;
  int64_t iteration = 0;
};

// Saturates instead of overflowing, so hostile plans stay well defined (and out of any bounds).
int64_t Evaluate(const LinearExpr& expr, const ExprVars& vars);

// "1024+64*((mb+1)%2)+4096*data"; variables are "mb", "iter" and the mesh's axis names.
std::string ToString(const LinearExpr& expr, const Mesh& mesh);
absl::StatusOr<LinearExpr> ParseLinearExpr(std::string_view text, const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_EXPR_H_
