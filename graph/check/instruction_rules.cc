// Rules for single instructions: is this kind of instruction right for the node, do the operands
// fit it, and do they lie in memory it can reach.
#include "graph/check/instruction_rules.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
namespace {

bool Contains(const std::vector<int>& items, int item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

class InstructionChecker : InstructionRules {
 public:
  using InstructionRules::InstructionRules;

  void Check() {
    if (!instruction_.stream.valid() || instruction_.stream.index >= std::ssize(program_.streams)) {
      Fail(StrCat("its stream does not exist", Which(instruction_.stream.index, program_.streams)));
      return;
    }
    std::visit(*this, instruction_.body);
  }

  void operator()(const Launch& i) {
    const NodeEntry* node = FindNode(i.node, i.graph);
    if (node == nullptr) return;
    if (node->traits->control_flow != ControlFlow::kNone) Fail(*node, "runs by Call");
    if (node->traits->comm != CommKind::kNone) Fail(*node, "runs by a communication instruction");
    if (node->traits->host_call || node->bounded) {
      Fail(*node, "has sizes known only at run time: it runs by HostCall");
    }
    if (i.variant.empty()) Fail(*node, "names no kernel variant");
    CheckOperands(*node, i.inputs, i.outputs);
    CheckScratch(i.scratch);
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      if (Contains(node->traits->host_inputs, static_cast<int>(k))) {
        ExpectOnHost(i.inputs[k], "is read by the host");
      } else {
        ExpectOnDevice(i.inputs[k]);
      }
    }
    for (SliceId out : i.outputs) ExpectOnDevice(out);
    ExpectOnDevice(i.scratch);
  }

  void operator()(const HostCall& i) {
    const NodeEntry* node = FindNode(i.node, i.graph);
    if (node == nullptr) return;
    if (node->traits->control_flow != ControlFlow::kNone) Fail(*node, "runs by Call");
    if (node->traits->comm != CommKind::kNone) Fail(*node, "runs by a communication instruction");
    CheckOperands(*node, i.inputs, i.outputs);
    for (SliceId slice : i.inputs) ExpectOnHost(slice, "is read by the host");
    for (SliceId slice : i.outputs) ExpectOnHost(slice, "is written by the host");
  }

  void operator()(const Copy& i) {
    if (!HasSlice(i.from) || !HasSlice(i.to)) return Fail("a slice does not exist");
    const Slice &from = SliceOf(i.from), &to = SliceOf(i.to);
    if (!from.value.value.valid() || from.value != to.value) {
      Fail("it copies between slices of different values");
    }
    const auto has_elements = [](const Slice& slice) {
      return slice.layout == Layout::kStrided || slice.layout == Layout::kNHWC;
    };
    if (!has_elements(from) || !has_elements(to)) {
      Fail("it copies a layout that is neither strided nor nhwc");
    }
  }

  void operator()(const Send& i) { CheckTransfer(i.from, i.to); }
  void operator()(const Recv& i) { CheckTransfer(i.to, i.from); }

  void operator()(const Record& i) { CheckEvent(i.event); }
  void operator()(const Wait& i) { CheckEvent(i.event); }

  void operator()(const Collective& i) {
    if (segment_.graph != 0) return Fail("a Call's body may not meet other devices");
    const NodeEntry* node = FindNode(i.node, 0);
    if (node == nullptr) return;
    const CommKind kind = node->traits->comm;
    if (kind == CommKind::kNone || kind == CommKind::kPublish || kind == CommKind::kTakeLatest) {
      return Fail(*node, "is no collective");
    }
    CheckOperands(*node, i.inputs, i.outputs);
    CheckScratch(i.scratch);
    for (const auto* list : {&i.inputs, &i.outputs}) {
      for (SliceId slice : *list) {
        ExpectOnDevice(slice);
        ExpectContiguous(slice);
      }
    }
    ExpectOnDevice(i.scratch);
    CheckCollectiveTypes(*node, kind);
  }

  void operator()(const Publish& i) {
    if (segment_.graph != 0) return Fail("a Call's body may not use mailboxes");
    const NodeEntry* node = FindNode(i.node, 0);
    if (node == nullptr) return;
    if (node->traits->comm != CommKind::kPublish) return Fail(*node, "does not publish");
    CheckOperands(*node, {i.from}, {});
    CheckMailbox(i.mailbox, i.from);
  }

  void operator()(const TakeLatest& i) {
    if (segment_.graph != 0) return Fail("a Call's body may not use mailboxes");
    const NodeEntry* node = FindNode(i.node, 0);
    if (node == nullptr) return;
    if (node->traits->comm != CommKind::kTakeLatest) return Fail(*node, "takes nothing");
    CheckOperands(*node, {}, {i.to});
    CheckMailbox(i.mailbox, i.to);
  }

  void operator()(const Call&) { CheckCall(model_, p_, segment_index_, index_, errors_); }

 private:
  void CheckScratch(SliceId scratch) {
    if (!scratch.valid()) return;
    if (!HasSlice(scratch)) return Fail("its scratch slice does not exist");
    if (SliceOf(scratch).value.value.valid()) Fail("its scratch slice belongs to a value");
  }

  void ExpectOnDevice(SliceId id) {
    if (!HasSlice(id) || IsDeviceReachable(program_, BufferOf(id))) return;
    Fail(PlanRule::kSpace,
         StrCat(SliceName(id), " lies in ", MemorySpaceName(BufferOf(id).space),
                " memory, which a kernel of a ", program_.device_kind, " device cannot reach"));
  }

  void ExpectNotFile(SliceId id) {
    if (BufferOf(id).space != MemorySpace::kFile) return;
    Fail(PlanRule::kSpace, StrCat(SliceName(id), " lies in a file; only Copy reaches it"));
  }

  void ExpectContiguous(SliceId id) {
    if (!HasSlice(id)) return;
    if (!model_.footprints[p_][id.index].contiguous()) {
      Fail(StrCat(SliceName(id), " does not lie in one piece; what leaves the device must"));
    }
  }

  void CheckTransfer(SliceId slice, const Peer& peer) {
    if (segment_.graph != 0) return Fail("a Call's body may not send or receive");
    if (!HasSlice(slice)) {
      return Fail(StrCat("its slice does not exist", Which(slice.index, program_.slices)));
    }
    if (!SliceOf(slice).value.value.valid()) return Fail("it moves scratch memory");
    if (model_.graphs.value(SliceOf(slice).value).bounded) {
      Fail(StrCat(SliceName(slice), " has a size known only at run time; it cannot be sent"));
    }
    ExpectNotFile(slice);
    ExpectContiguous(slice);
    if (!peer.program.valid() || peer.program.index >= std::ssize(model_.plan->programs)) {
      Fail(StrCat("its peer program does not exist",
                  Which(peer.program.index, model_.plan->programs)));
    }
    int last = -1;
    for (const auto& [axis, coordinate] : peer.coordinates) {
      if (axis <= last || axis >= std::ssize(model_.plan->mesh.axes) ||
          !IsValidExpr(coordinate, model_.plan->mesh)) {
        return Fail("its peer's coordinates are not on existing mesh axes, in ascending order");
      }
      last = axis;
    }
  }

  void CheckEvent(EventId event) {
    if (segment_.graph != 0) return Fail("a Call's body may not use events");
    if (!event.valid() || event.index >= std::ssize(program_.events)) {
      Fail(StrCat("its event does not exist", Which(event.index, program_.events)));
    }
  }

  void CheckMailbox(const std::string& mailbox, SliceId slice) {
    if (mailbox.empty()) Fail("its mailbox has no name");
    if (!HasSlice(slice)) return;
    ExpectNotFile(slice);
    ExpectContiguous(slice);
    const ValueRef value = SliceOf(slice).value;
    if (value.value.valid() && model_.graphs.value(value).bounded) {
      Fail(StrCat(SliceName(slice), " has a size known only at run time; it cannot be published"));
    }
  }

  void CheckCollectiveTypes(const NodeEntry& node, CommKind kind) {
    const Graph& graph = *model_.graphs.graphs[0].graph;
    if (node.node->inputs.size() != 1 || node.node->outputs.size() != 1 ||
        !node.node->inputs[0].valid() || !node.node->outputs[0].valid()) {
      return Fail(node, "must have one input and one output");
    }
    const Value &in = graph.value(node.node->inputs[0]), &out = graph.value(node.node->outputs[0]);
    if (in.bounded || out.bounded) {
      return Fail(node, "has sizes known only at run time; all members must agree on them");
    }
    std::vector<int> axes;
    if (!CommAxes(*node.node, model_.plan->mesh, axes)) {
      return Fail(PlanRule::kComm, StrCat(node.node->op, " '", node.node->name,
                                          "' names no axis of the mesh in 'axis'"));
    }
    int64_t members = 1;
    for (int axis : axes) members *= model_.plan->mesh.axes[axis].size;
    const int64_t in_count = NumElements(in.type.shape), out_count = NumElements(out.type.shape);
    const bool fits = kind == CommKind::kAllGather
                          ? out_count / members == in_count && out_count % members == 0
                      : kind == CommKind::kReduceScatter
                          ? in_count / members == out_count && in_count % members == 0
                          : in_count == out_count;
    if (in.type.dtype != out.type.dtype || !fits) {
      Fail(PlanRule::kComm,
           StrCat(node.node->op, " '", node.node->name, "' over ", members, " devices cannot make ",
                  ToString(out.type), " of ", ToString(in.type)));
    }
    const AttrValue* root = node.node->attrs.Find("root");
    const int64_t* rank = root != nullptr ? std::get_if<int64_t>(root) : nullptr;
    if (kind == CommKind::kBroadcast && root != nullptr &&
        (rank == nullptr || *rank < 0 || *rank >= members)) {
      Fail(PlanRule::kComm, StrCat(node.node->op, " '", node.node->name, "' has no root among ",
                                   members, " devices"));
    }
  }
};

}  // namespace

void CheckInstruction(const PlanModel& model, int32_t program, int32_t segment, int32_t index,
                      ErrorList& errors) {
  InstructionChecker(model, program, segment, index, errors).Check();
}

}  // namespace millrace
