#include "graph/control_flow.h"

#include "graph/strings.h"

namespace millrace {
namespace {

absl::StatusOr<int64_t> IntAttr(const Attrs& attrs, std::string_view name, int64_t otherwise) {
  const AttrValue* value = attrs.Find(name);
  if (value == nullptr) return otherwise;
  const int64_t* number = std::get_if<int64_t>(value);
  if (number == nullptr) return BadInputError(StrCat("'", name, "' is not an integer"));
  return *number;
}

// How many, of at most `there`.
absl::StatusOr<int> CountAttr(const Attrs& attrs, std::string_view name, int there) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t count, IntAttr(attrs, name, 0));
  if (count >= 0 && count <= there) return static_cast<int>(count);
  return BadInputError(StrCat("'", name, "' is ", count, " where ", there,
                              there == 1 ? " input is left" : " inputs are left"));
}

// One entry for each of `count`; all 0 when the attribute is absent or empty.
absl::StatusOr<std::vector<int64_t>> ListAttr(const Attrs& attrs, std::string_view name,
                                              int count) {
  const AttrValue* value = attrs.Find(name);
  if (value == nullptr) return std::vector<int64_t>(count, 0);
  const auto* list = std::get_if<std::vector<int64_t>>(value);
  if (list == nullptr) return BadInputError(StrCat("'", name, "' is not a list of integers"));
  if (list->empty()) return std::vector<int64_t>(count, 0);
  if (static_cast<int>(list->size()) == count) return *list;
  return BadInputError(StrCat("'", name, "' has ", list->size(), " entries, expected ", count));
}

void AddPorts(std::vector<BodyPort>& ports, PortKind kind, int count, int first_operand) {
  for (int i = 0; i < count; ++i) ports.push_back({.kind = kind, .operand = first_operand + i});
}

absl::Status AddElements(const Attrs& attrs, std::string_view axes_name,
                         std::string_view directions_name, int count, int first_operand,
                         std::vector<BodyPort>& ports) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ListAttr(attrs, axes_name, count));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> directions,
                            ListAttr(attrs, directions_name, count));
  for (int i = 0; i < count; ++i) {
    if (directions[i] != 0 && directions[i] != 1) {
      return BadInputError(StrCat("'", directions_name, "' has ", directions[i],
                                  ", expected 0 (forwards) or 1 (backwards)"));
    }
    if (axes[i] < -kMaxRank || axes[i] >= kMaxRank) {
      return BadInputError(StrCat("'", axes_name, "' has axis ", axes[i], ", which no value has"));
    }
    ports.push_back({.kind = PortKind::kElement,
                     .operand = first_operand + i,
                     .axis = static_cast<int>(axes[i]),
                     .backwards = directions[i] == 1});
  }
  return absl::OkStatus();
}

absl::StatusOr<CallForm> IfForm(int num_inputs, int num_outputs) {
  if (num_inputs < 1) return BadInputError("it has no condition");
  CallForm form{.kind = ControlFlow::kIf, .condition = 0, .num_bodies = 2};
  AddPorts(form.inputs, PortKind::kSame, num_inputs - 1, 1);
  AddPorts(form.outputs, PortKind::kSame, num_outputs, 0);
  return form;
}

absl::Status TooFewOutputs(int num_outputs, int num_carried) {
  return BadInputError(
      StrCat("it has ", num_outputs, " outputs for ", num_carried, " carried values"));
}

absl::StatusOr<CallForm> LoopForm(const Attrs& attrs, int num_inputs, int num_outputs,
                                  bool has_trip_count, bool has_condition) {
  const int left = std::max(0, num_inputs - 2);
  MILLRACE_ASSIGN_OR_RETURN(const int captures, CountAttr(attrs, "num_captures", left));
  CallForm form{.kind = ControlFlow::kLoop, .num_bodies = 1};
  if (has_trip_count) form.trip_count = 0;
  if (has_condition) form.condition = 1;
  MILLRACE_ASSIGN_OR_RETURN(form.max_trips, IntAttr(attrs, "max_trips", -1));
  if (form.max_trips < -1) {
    return BadInputError(StrCat("'max_trips' is ", form.max_trips));
  }
  form.num_carried = left - captures;
  if (num_outputs < form.num_carried) return TooFewOutputs(num_outputs, form.num_carried);
  form.inputs = {{.kind = PortKind::kTrip}, {.kind = PortKind::kCondition}};
  form.first_carried_in = 2;
  AddPorts(form.inputs, PortKind::kCarried, form.num_carried, 2);
  AddPorts(form.inputs, PortKind::kSame, captures, 2 + form.num_carried);
  form.outputs = {{.kind = PortKind::kCondition}};
  form.first_carried_out = 1;
  AddPorts(form.outputs, PortKind::kCarried, form.num_carried, 0);
  AddPorts(form.outputs, PortKind::kElement, num_outputs - form.num_carried, form.num_carried);
  return form;
}

absl::StatusOr<CallForm> ScanForm(const Attrs& attrs, int num_inputs, int num_outputs) {
  MILLRACE_ASSIGN_OR_RETURN(const int captures, CountAttr(attrs, "num_captures", num_inputs));
  MILLRACE_ASSIGN_OR_RETURN(const int sequences,
                            CountAttr(attrs, "num_scan_inputs", num_inputs - captures));
  if (sequences == 0) return BadInputError("'num_scan_inputs' is 0: nothing says how many trips");
  CallForm form{.kind = ControlFlow::kScan, .num_bodies = 1};
  form.num_carried = num_inputs - captures - sequences;
  if (num_outputs < form.num_carried) return TooFewOutputs(num_outputs, form.num_carried);
  AddPorts(form.inputs, PortKind::kCarried, form.num_carried, 0);
  MILLRACE_RETURN_IF_ERROR(AddElements(attrs, "scan_input_axes", "scan_input_directions", sequences,
                                       form.num_carried, form.inputs));
  AddPorts(form.inputs, PortKind::kSame, captures, form.num_carried + sequences);
  AddPorts(form.outputs, PortKind::kCarried, form.num_carried, 0);
  MILLRACE_RETURN_IF_ERROR(AddElements(attrs, "scan_output_axes", "scan_output_directions",
                                       num_outputs - form.num_carried, form.num_carried,
                                       form.outputs));
  return form;
}

}  // namespace

std::string_view ControlFlowName(ControlFlow flow) {
  constexpr std::string_view kNames[] = {"none", "if", "loop", "scan"};
  return kNames[static_cast<int>(flow)];
}

absl::StatusOr<CallForm> FormOf(ControlFlow kind, const Attrs& attrs, int num_inputs,
                                int num_outputs, bool has_trip_count, bool has_condition) {
  switch (kind) {
    case ControlFlow::kIf:
      return IfForm(num_inputs, num_outputs);
    case ControlFlow::kLoop:
      return LoopForm(attrs, num_inputs, num_outputs, has_trip_count, has_condition);
    case ControlFlow::kScan:
      return ScanForm(attrs, num_inputs, num_outputs);
    case ControlFlow::kNone:
      break;
  }
  return BadInputError("it is not control flow");
}

absl::StatusOr<CallForm> FormOf(ControlFlow kind, const Node& node) {
  const auto has = [&](size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); };
  return FormOf(kind, node.attrs, static_cast<int>(node.inputs.size()),
                static_cast<int>(node.outputs.size()), has(0), has(1));
}

int64_t PlannedTrips(const CallForm& form, const Graph& graph, const Node& node) {
  const auto size_of = [&](const BodyPort& port, ValueId whole) -> int64_t {
    if (port.kind != PortKind::kElement || !whole.valid()) return -1;
    const Shape& shape = graph.value(whole).type.shape;
    const int axis = ElementAxis(port, shape);
    return axis >= 0 ? shape[axis] : -1;
  };
  if (form.trip_count >= 0) {
    const std::optional<Tensor> count = ConstantTensor(graph, node.inputs[form.trip_count]);
    if (count.has_value() && count->num_elements() == 1) {
      return std::max<int64_t>(0, count->AsInt64(0));
    }
  }
  for (const BodyPort& port : form.inputs) {
    if (port.operand < 0) continue;
    if (const int64_t size = size_of(port, node.inputs[port.operand]); size >= 0) return size;
  }
  for (const BodyPort& port : form.outputs) {
    if (port.operand < 0) continue;
    if (const int64_t size = size_of(port, node.outputs[port.operand]); size >= 0) return size;
  }
  return form.max_trips;
}

int ElementAxis(const BodyPort& port, const Shape& whole) {
  const int axis = port.axis < 0 ? port.axis + whole.rank() : port.axis;
  return axis >= 0 && axis < whole.rank() ? axis : -1;
}

Shape ElementShape(const Shape& whole, int axis) {
  Shape element;
  for (int d = 0; d < whole.rank(); ++d) {
    if (d != axis) element.push_back(whole[d]);
  }
  return element;
}

}  // namespace millrace
