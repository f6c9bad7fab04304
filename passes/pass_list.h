// Every rewrite pass there is, by name; one line each in pass_list.cc.
#ifndef MILLRACE_PASSES_PASS_LIST_H_
#define MILLRACE_PASSES_PASS_LIST_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace millrace {

// The level of passes that run only where they are asked for by name.
inline constexpr int kAskedForLevel = kMaxLevel + 1;

// In the order in which the pipeline runs them.
std::span<const Pass> AllPasses();
const Pass* FindPass(std::string_view name);  // nullptr when there is none

struct PassSelection {
  int level = kDefaultLevel;              // passes up to it (Pass::level)
  std::vector<std::string> only = {};     // instead of those of the level, in the list's order
  std::vector<std::string> also = {};     // besides those of the level
  std::vector<std::string> without = {};  // but not these
};
// UsageError for names that no pass has, and for `without` a pass that planning needs.
absl::StatusOr<std::vector<Pass>> SelectPasses(const PassSelection& selection);

// The passes, each in its own file.
absl::StatusOr<bool> AbsorbTransposes(Graph& graph, PassContext& context);
absl::StatusOr<bool> EliminateCommonSubexpressions(Graph& graph, PassContext& context);
absl::StatusOr<bool> EliminateIdentity(Graph& graph, PassContext& context);
absl::StatusOr<bool> FoldBatchNorm(Graph& graph, PassContext& context);
absl::StatusOr<bool> FoldConstants(Graph& graph, PassContext& context);
absl::StatusOr<bool> FuseAttention(Graph& graph, PassContext& context);
absl::StatusOr<bool> FuseEpilogues(Graph& graph, PassContext& context);
absl::StatusOr<bool> FusePrograms(Graph& graph, PassContext& context);
absl::StatusOr<bool> LiftNestedConstants(Graph& graph, PassContext& context);
absl::StatusOr<bool> LowerEinsum(Graph& graph, PassContext& context);
absl::StatusOr<bool> LowerToBf16(Graph& graph, PassContext& context);
absl::StatusOr<bool> LowerToF16(Graph& graph, PassContext& context);
absl::StatusOr<bool> MergeCuts(Graph& graph, PassContext& context);
absl::StatusOr<bool> MergeMoves(Graph& graph, PassContext& context);
absl::StatusOr<bool> PrepackWeights(Graph& graph, PassContext& context);
absl::StatusOr<bool> RecognizeActivations(Graph& graph, PassContext& context);
absl::StatusOr<bool> RecognizeNormalizations(Graph& graph, PassContext& context);
absl::StatusOr<bool> RecognizeSoftmaxes(Graph& graph, PassContext& context);
absl::StatusOr<bool> RelaxAlgebra(Graph& graph, PassContext& context);
absl::StatusOr<bool> SimplifyAlgebra(Graph& graph, PassContext& context);
absl::StatusOr<bool> EliminateDeadNodes(Graph& graph, PassContext& context);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PASS_LIST_H_
