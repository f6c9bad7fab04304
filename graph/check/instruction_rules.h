// InstructionRules: what the rules for single instructions are written with: the instruction at
// hand, its operands by name, and complaints about them.
#ifndef MILLRACE_GRAPH_CHECK_INSTRUCTION_RULES_H_
#define MILLRACE_GRAPH_CHECK_INSTRUCTION_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/check/plan_model.h"
#include "graph/strings.h"

namespace millrace {

class InstructionRules {
 public:
  InstructionRules(const PlanModel& model, int32_t program, int32_t segment, int32_t index,
                   ErrorList& errors)
      : model_(model),
        p_(program),
        segment_index_(segment),
        index_(index),
        program_(model.program(program)),
        segment_(program_.segments[segment]),
        instruction_(segment_.instructions[index]),
        errors_(errors) {}

 protected:
  // " (id 7 of 3)"
  template <typename T>
  static std::string Which(int32_t id, const std::vector<T>& items) {
    return StrCat(" (id ", id, " of ", items.size(), ")");
  }

  void Fail(PlanRule rule, std::string_view what) {
    std::string place = InstructionPlace(program_, segment_index_, index_);
    if (rule != PlanRule::kStructure) place = StrCat(PlanRuleName(rule), " in ", place);
    errors_.Add(rule, StrCat(place, ": ", what));
  }
  void Fail(std::string_view what) { Fail(PlanRule::kStructure, what); }
  void Fail(const NodeEntry& node, std::string_view what) {
    Fail(StrCat(node.node->op, " '", node.node->name, "' ", what));
  }

  bool HasSlice(SliceId id) const { return id.valid() && id.index < std::ssize(program_.slices); }
  const Slice& SliceOf(SliceId id) const { return program_.slices[id.index]; }
  const PlanBuffer& BufferOf(SliceId id) const {
    return program_.buffers[SliceOf(id).buffer.index];
  }
  std::string SliceName(SliceId id) const {
    const ValueRef ref = SliceOf(id).value;
    const std::string what =
        ref.value.valid() ? StrCat("'", model_.graphs.value(ref).name, "'") : "scratch";
    return StrCat(what, " in buffer '", BufferOf(id).name, "'");
  }

  // The node, when the instruction may name it at all; otherwise says why not.
  const NodeEntry* FindNode(NodeId id, int32_t graph) {
    if (graph != segment_.graph) {
      Fail(StrCat("it names graph ", graph, "; its segment runs graph ", segment_.graph));
      return nullptr;
    }
    if (!id.valid() || id.index >= std::ssize(model_.graphs.graphs[graph].graph->nodes)) {
      Fail(StrCat("its node does not exist",
                  Which(id.index, model_.graphs.graphs[graph].graph->nodes)));
      return nullptr;
    }
    const NodeEntry& node = model_.graphs.nodes[model_.graphs.GlobalNode(graph, id)];
    if (node.traits == nullptr) {
      Fail(StrCat("op '", node.node->op, "' of node '", node.node->name, "' is unknown"));
      return nullptr;
    }
    return &node;
  }

  void CheckOperands(const NodeEntry& node, const std::vector<SliceId>& inputs,
                     const std::vector<SliceId>& outputs) {
    CheckOperandList(node, "input", node.node->inputs, inputs);
    CheckOperandList(node, "output", node.node->outputs, outputs);
  }

  void CheckOperandList(const NodeEntry& node, std::string_view what,
                        const std::vector<ValueId>& values, const std::vector<SliceId>& slices) {
    if (values.size() != slices.size()) {
      return Fail(
          node, StrCat("has ", values.size(), " ", what, "s, the instruction has ", slices.size()));
    }
    for (size_t k = 0; k < values.size(); ++k) {
      if (!values[k].valid() && !slices[k].valid()) continue;
      if (values[k].valid() != slices[k].valid() || !HasSlice(slices[k])) {
        Fail(node, StrCat(what, " ", k, values[k].valid() ? " needs a slice" : " needs no slice",
                          slices[k].valid() ? Which(slices[k].index, program_.slices) : ""));
        continue;
      }
      const ValueRef expected{node.graph, values[k]};
      if (SliceOf(slices[k]).value == expected) continue;
      Fail(PlanRule::kCompute, StrCat(node.node->op, " '", node.node->name, "' ", what, " ", k,
                                      " is '", model_.graphs.value(expected).name,
                                      "', the slice given is ", SliceName(slices[k])));
    }
  }

  void ExpectOnHost(SliceId id, std::string_view why) {
    if (!HasSlice(id) || IsHostReachable(program_, BufferOf(id))) return;
    Fail(PlanRule::kSpace,
         StrCat(SliceName(id), " ", why, ", but lies in ", MemorySpaceName(BufferOf(id).space),
                " memory of a ", program_.device_kind, " device"));
  }

  const PlanModel& model_;
  const int32_t p_, segment_index_, index_;
  const Program& program_;
  const Segment& segment_;
  const Instruction& instruction_;
  ErrorList& errors_;
};

// The rules for Calls (call_rules.cc).
void CheckCall(const PlanModel& model, int32_t program, int32_t segment, int32_t index,
               ErrorList& errors);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_INSTRUCTION_RULES_H_
