#include "passes/pass_list.h"

namespace millrace {

std::span<const Pass> AllPasses() {
  static const Pass kPasses[] = {
      {"lower-einsum", "Turn Einsum into products of matrices", LowerEinsum},
      {"eliminate-identity", "Let readers of an Identity read what it copies", EliminateIdentity},
      {"fold-constants", "Compute nodes all of whose inputs are constants", FoldConstants},
      {"lift-nested-constants", "Make constants of nested graphs inputs from the outside",
       LiftNestedConstants},
      {"eliminate-dead-nodes", "Drop nodes without effects whose results nobody reads",
       EliminateDeadNodes},
  };
  return kPasses;
}

const Pass* FindPass(std::string_view name) {
  for (const Pass& pass : AllPasses()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace millrace
