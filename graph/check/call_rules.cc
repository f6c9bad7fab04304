// Rules for Calls: the node is control flow of the call's kind, its bodies fit it, and what the
// host counts and copies is what it takes it for.
#include <algorithm>

#include "graph/check/instruction_rules.h"
#include "graph/control_flow.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// A value may go where another is expected: same type, and a size that is known stays known.
bool CanBecome(const Value& from, const Value& to) {
  return from.type == to.type && (to.bounded || !from.bounded);
}

class CallChecker : InstructionRules {
 public:
  using InstructionRules::InstructionRules;

  void Check(const Call& call) {
    const NodeEntry* node = FindNode(call.node, call.graph);
    if (node == nullptr) return;
    node_ = node;
    if (node->traits->control_flow == ControlFlow::kNone) return Fail("cannot be called");
    if (node->traits->control_flow != call.flow) {
      return Fail(
          StrCat("is called as control flow '", ControlFlowName(call.flow), "', which it is not"));
    }
    const int64_t before = errors_.total();
    CheckOperands(*node, call.inputs, call.outputs);
    if (errors_.total() != before) return;
    const absl::StatusOr<CallForm> form = FormOf(call.flow, *node->node);
    if (!form.ok()) return Fail(StdView(form.status().message()));
    if (!HasConditions(call, *form)) return;
    const size_t expected = form->num_bodies;
    if (call.bodies.size() != expected || node->node->subgraphs.size() != expected) {
      return Fail(StrCat("it has ", call.bodies.size(), " bodies, expected ", expected));
    }
    const int32_t global = model_.graphs.GlobalNode(call.graph, call.node);
    for (size_t k = 0; k < expected; ++k) {
      CheckBody(call, call.bodies[k], *form, model_.graphs.Nested(global, static_cast<int>(k)));
    }
    if (call.flow == ControlFlow::kScan) CheckTrips(call, *form);
  }

 private:
  void Fail(std::string_view what) { InstructionRules::Fail(*node_, what); }

  const Value& ValueOf(SliceId id) const { return model_.graphs.value(SliceOf(id).value); }

  bool HasConditions(const Call& call, const CallForm& form) {
    if (call.flow == ControlFlow::kIf && !call.inputs[form.condition].valid()) {
      Fail("has no condition");
      return false;
    }
    if (call.flow == ControlFlow::kLoop && form.condition < 0 && form.trip_count < 0) {
      Fail("has neither a condition nor a trip count");
      return false;
    }
    if (form.condition >= 0) {
      CheckCounter(call.inputs[form.condition], DType::kBool, "condition");
    }
    if (form.trip_count >= 0) {
      CheckCounter(call.inputs[form.trip_count], DType::kI64, "trip count");
    }
    return true;
  }

  // What the host reads or writes: one element in memory that it reaches.
  void CheckCounter(SliceId slice, DType dtype, std::string_view what) {
    const Value& value = ValueOf(slice);
    if (value.type.dtype != dtype || CheckedNumElements(value.type.shape) != 1) {
      Fail(StrCat("its ", what, " '", value.name, "' is ", ToString(value.type), ", not one ",
                  DTypeName(dtype)));
    }
    ExpectOnHost(slice, StrCat("is the ", what));
  }

  void CheckBody(const Call& call, const CallBody& body, const CallForm& form, int32_t graph) {
    if (!body.segment.valid() || body.segment.index >= std::ssize(program_.segments) ||
        program_.segments[body.segment.index].graph != graph) {
      return Fail(StrCat("a body's segment is not one of graph ", graph));
    }
    const Segment& segment = program_.segments[body.segment.index];
    for (const Instruction& i : segment.instructions) {
      if (i.stream == instruction_.stream) continue;
      Fail(StrCat("body '", segment.name, "' leaves the call's stream"));
      break;
    }
    where_ = StrCat("body '", segment.name, "' ");
    const Graph& inner = *model_.graphs.graphs[graph].graph;
    const int64_t before = errors_.total();
    CheckBorder(Side::kIn, form.inputs, {graph, &inner.inputs}, body.inputs, call.inputs);
    CheckBorder(Side::kOut, form.outputs, {graph, &inner.outputs}, body.outputs, call.outputs);
    if (errors_.total() != before) return;
    for (int i = 0; i < form.num_carried; ++i) {
      const Value& in = inner.value(inner.inputs[form.first_carried_in + i]);
      const Value& out = inner.value(inner.outputs[form.first_carried_out + i]);
      if (CanBecome(out, in)) continue;
      Fail(
          StrCat(where_, "carries '", out.name, "' on as '", in.name, "', which has another type"));
    }
  }

  enum class Side { kIn, kOut };
  struct BorderValues {
    int32_t graph;
    const std::vector<ValueId>* values;
  };

  static std::string_view NameOf(Side side) { return side == Side::kIn ? "input" : "output"; }

  // A body's slices against what is outside. That they lie on the same bytes is seen when they are
  // placed.
  void CheckBorder(Side side, const std::vector<BodyPort>& ports, const BorderValues& border,
                   const std::vector<SliceId>& slices, const std::vector<SliceId>& outside) {
    if (border.values->size() != slices.size() || slices.size() != ports.size()) {
      return Fail(StrCat(where_, "has ", border.values->size(), " ", NameOf(side),
                         "s, the instruction has ", slices.size(), ", the call passes ",
                         ports.size()));
    }
    for (size_t k = 0; k < ports.size(); ++k) {
      const SliceId out = ports[k].operand >= 0 ? outside[ports[k].operand] : SliceId();
      if (!HasSlices(side, ports[k], k, slices[k], out) || !slices[k].valid()) continue;
      const ValueRef expected{border.graph, (*border.values)[k]};
      if (SliceOf(slices[k]).value != expected) {
        InstructionRules::Fail(
            PlanRule::kCompute,
            StrCat(node_->node->op, " '", node_->node->name, "' ", where_, NameOf(side), " ", k,
                   " is '", model_.graphs.value(expected).name, "', the slice given is ",
                   SliceName(slices[k])));
        continue;
      }
      CheckPort(side, ports[k], slices[k], out);
    }
  }

  // Which slices there must be; both ids are of slices afterwards, or invalid.
  bool HasSlices(Side side, const BodyPort& port, size_t k, SliceId inside, SliceId outside) {
    const bool has_inside = HasSlice(inside);
    bool fits = has_inside || !inside.valid();
    switch (port.kind) {
      case PortKind::kSame:
        fits = fits && inside.valid() == outside.valid();
        break;
      case PortKind::kCarried:
        fits = has_inside && (side == Side::kOut || outside.valid());
        break;
      case PortKind::kElement:
        fits = fits && (side == Side::kIn ? outside.valid() : has_inside || !outside.valid());
        break;
      case PortKind::kTrip:
        break;
      case PortKind::kCondition:
        fits = fits && (side == Side::kIn || has_inside || !ReadsConditions());
        break;
    }
    if (!fits) {
      Fail(StrCat(where_, NameOf(side), " ", k, " and what it meets must both have a slice"));
    }
    return fits;
  }

  // A loop without a condition ignores its body's.
  bool ReadsConditions() const {
    const std::vector<ValueId>& inputs = node_->node->inputs;
    return inputs.size() > 1 && inputs[1].valid();
  }

  void CheckPort(Side side, const BodyPort& port, SliceId inside, SliceId outside) {
    switch (port.kind) {
      case PortKind::kTrip:
        return CheckCounter(inside, DType::kI64, "number of the trip");
      case PortKind::kCondition:
        return CheckCounter(inside, DType::kBool, "condition of a trip");
      case PortKind::kElement:
        if (outside.valid()) CheckElement(port, inside, outside);
        return;
      case PortKind::kSame:
      case PortKind::kCarried:
        break;
    }
    if (!outside.valid()) return;
    const Value &in = ValueOf(inside), &out = ValueOf(outside);
    if (side == Side::kIn ? CanBecome(out, in) : CanBecome(in, out)) return;
    Fail(
        StrCat(where_, NameOf(side), " '", in.name, "' and '", out.name, "' have different types"));
  }

  void CheckElement(const BodyPort& port, SliceId inside, SliceId outside) {
    const Value &element = ValueOf(inside), &whole = ValueOf(outside);
    const int axis = ElementAxis(port, whole.type.shape);
    if (axis < 0) return Fail(StrCat("'", whole.name, "' has no axis ", port.axis));
    const TensorType expected{whole.type.dtype, ElementShape(whole.type.shape, axis)};
    if (element.type != expected) {
      Fail(StrCat(where_, "'", element.name, "' is ", ToString(element.type), ", an element of '",
                  whole.name, "' is ", ToString(expected)));
    }
    // The trips of a loop become dim 0 of its stacks, of which the true size may be smaller.
    const bool may_be_bounded = node_->traits->control_flow == ControlFlow::kLoop && axis == 0;
    if (element.bounded || (whole.bounded && !may_be_bounded)) {
      Fail(StrCat(where_, "'", element.name, "' or '", whole.name,
                  "' has a size known only at run time; elements do not"));
    }
    for (SliceId slice : {inside, outside}) {
      if (SliceOf(slice).layout != Layout::kStrided) {
        Fail(StrCat(SliceName(slice), " is not strided; elements are copied"));
      }
      if (BufferOf(slice).space == MemorySpace::kFile) {
        InstructionRules::Fail(PlanRule::kSpace,
                               StrCat(SliceName(slice), " lies in a file; only Copy reaches it"));
      }
    }
  }

  // All sequences and stacks of a scan have as many elements as it makes trips.
  void CheckTrips(const Call& call, const CallForm& form) {
    int64_t trips = -1;
    const auto check = [&](const BodyPort& port, SliceId whole) {
      if (port.kind != PortKind::kElement || !whole.valid()) return;
      const Value& value = ValueOf(whole);
      const int axis = ElementAxis(port, value.type.shape);
      if (axis < 0) return;  // said already
      const int64_t size = value.type.shape[axis];
      if (trips >= 0 && size != trips) {
        Fail(StrCat("'", value.name, "' has ", size, " elements for ", trips, " trips"));
      }
      trips = size;
    };
    for (const BodyPort& port : form.inputs) {
      if (port.operand >= 0) check(port, call.inputs[port.operand]);
    }
    for (const BodyPort& port : form.outputs) {
      if (port.operand >= 0) check(port, call.outputs[port.operand]);
    }
  }

  const NodeEntry* node_ = nullptr;
  std::string where_;
};

}  // namespace

void CheckCall(const PlanModel& model, int32_t program, int32_t segment, int32_t index,
               ErrorList& errors) {
  CallChecker(model, program, segment, index, errors)
      .Check(std::get<Call>(model.program(program).segments[segment].instructions[index].body));
}

}  // namespace millrace
