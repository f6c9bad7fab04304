#include "passes/pass_list.h"

#include <algorithm>

#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {

std::span<const Pass> AllPasses() {
  static const Pass kPasses[] = {
      {"lower-einsum", "Turn Einsum into products of matrices", 1, LowerEinsum},
      {"fold-constants", "Compute nodes all of whose inputs are constants", 1, FoldConstants},
      {"fold-batch-norm", "Fold BatchNormalization into the weights before it; rounds differently",
       2, FoldBatchNorm},
      {"eliminate-identity", "Let readers of a node that changes nothing read what it copies", 1,
       EliminateIdentity},
      {"simplify-algebra", "Compute less by the rules of algebra that hold bit for bit", 1,
       SimplifyAlgebra},
      {"relax-algebra", "Compute less by the algebra of real numbers (--fast-math)", kAskedForLevel,
       RelaxAlgebra},
      {"merge-moves", "Make one Transpose, Reshape or Cast of two in a row", 1, MergeMoves},
      {"merge-cuts", "Cut values out of, and join them from, what they come from first", 1,
       MergeCuts},
      {"eliminate-common-subexpressions", "Compute what several nodes compute once", 1,
       EliminateCommonSubexpressions},
      {"lift-nested-constants", "Make constants of nested graphs inputs from the outside", 0,
       LiftNestedConstants},
      {"eliminate-dead-nodes", "Drop nodes without effects whose results nobody reads", 1,
       EliminateDeadNodes},
      {"recognize-normalizations",
       "Make LayerNormalization or RMSNormalization of what spells it out; rounds differently", 2,
       RecognizeNormalizations, PassStage::kRecognize},
      {"recognize-softmaxes", "Make Softmax of what spells it out; rounds differently", 2,
       RecognizeSoftmaxes, PassStage::kRecognize},
      {"recognize-activations", "Make Gelu or Swish of what spells it out; rounds differently", 2,
       RecognizeActivations, PassStage::kRecognize},
      {"fuse-attention", "Compute attention as one node; sums are reassociated", 2, FuseAttention,
       PassStage::kRecognize},
      {"absorb-transposes", "Let products read matrices as they lie, not transposed", 2,
       AbsorbTransposes, PassStage::kRecognize},
      {"lower-to-bf16", "Compute products in bf16 (--precision bf16)", kAskedForLevel, LowerToBf16,
       PassStage::kRecognize},
      {"lower-to-f16", "Compute products in f16 (--precision f16)", kAskedForLevel, LowerToF16,
       PassStage::kRecognize},
      {"fuse-epilogues",
       "Let products go through what follows them point by point; rounds differently", 2,
       FuseEpilogues, PassStage::kRecognize},
      {"fuse-programs", "Compute elementwise nodes in a row as one program, point by point", 2,
       FusePrograms, PassStage::kFuse},
      {"prepack-weights", "Lay out weights once, as the kernels that read them want them", 2,
       PrepackWeights, PassStage::kFuse},
  };
  return kPasses;
}

const Pass* FindPass(std::string_view name) {
  for (const Pass& pass : AllPasses()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

namespace {

absl::Status CheckPassName(const std::string& name) {
  if (FindPass(name) != nullptr) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Pass& pass : AllPasses()) names.push_back(pass.name);
  const std::string hint = DidYouMean(name, names);
  return UsageError(
      StrCat("no pass is called '", name, "'; ", hint.empty() ? "see millrace passes" : hint));
}

}  // namespace

absl::StatusOr<std::vector<Pass>> SelectPasses(const PassSelection& selection) {
  for (const auto* names : {&selection.only, &selection.also, &selection.without}) {
    for (const std::string& name : *names) MILLRACE_RETURN_IF_ERROR(CheckPassName(name));
  }
  const auto named = [](const std::vector<std::string>& names, const Pass& pass) {
    return std::ranges::find(names, pass.name) != names.end();
  };
  std::vector<Pass> passes;
  for (const Pass& pass : AllPasses()) {
    const bool wanted =
        named(selection.also, pass) ||
        (selection.only.empty() ? pass.level <= selection.level : named(selection.only, pass));
    const bool dropped = named(selection.without, pass);
    if (dropped && pass.level == 0) {
      return UsageError(StrCat("plans need pass '", pass.name, "'; it cannot be left out"));
    }
    if ((wanted || pass.level == 0) && !dropped) passes.push_back(pass);
  }
  return passes;
}

}  // namespace millrace
