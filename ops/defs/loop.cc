// Loop and Scan run a nested graph again and again (graph/control_flow.h). What is carried from
// trip to trip keeps its type. A stack has as many elements as there were trips: Scan's trips are a
// dim of its sequences; Loop's must be known while planning, or bounded by its trip count or
// `max_trips`, and the stack is then of bounded size.
#include <algorithm>

#include "graph/control_flow.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// What the bodies do is theirs to say.
Work NoWork(const NodeQuery&) { return {}; }

bool IsOne(const TensorType& type, DType dtype) {
  return type.dtype == dtype && CheckedNumElements(type.shape) == 1;
}

absl::StatusOr<const Graph*> Body(const InferContext& c) {
  const Graph* body = c.subgraph("body");
  if (body == nullptr) return BadInputError("the result types need the nested graph 'body'");
  return body;
}

absl::Status SetCarried(InferContext& c, const CallForm& form, const Graph& body) {
  for (int i = 0; i < form.num_carried; ++i) {
    const Value& in = body.value(body.inputs[form.first_carried_in + i]);
    const Value& out = body.value(body.outputs[form.first_carried_out + i]);
    if (in.type != out.type) {
      return BadInputError(StrCat("carried value ", i, " enters a trip as ", ToString(in.type),
                                  " ('", in.name, "') and leaves it as ", ToString(out.type), " ('",
                                  out.name, "'); its type may not change"));
    }
    c.set_output(i, in.type, in.bounded);
  }
  return absl::OkStatus();
}

absl::Status SetStacks(InferContext& c, const CallForm& form, const Graph& body, int64_t trips,
                       bool bounded) {
  for (size_t k = 0; k < form.outputs.size(); ++k) {
    const BodyPort& port = form.outputs[k];
    if (port.kind != PortKind::kElement) continue;
    const Value& element = body.value(body.outputs[k]);
    const int rank = element.type.shape.rank() + 1;
    if (element.bounded) {
      return BadInputError(
          StrCat("elements '", element.name,
                 "' have a size known only at run time; a stack needs them alike"));
    }
    if (rank > kMaxRank) {
      return BadInputError(StrCat("the stack of '", element.name, "' would have ", rank,
                                  " dims, at most ", kMaxRank, " are possible"));
    }
    const int axis = port.axis < 0 ? port.axis + rank : port.axis;
    if (axis < 0 || axis >= rank) {
      return BadInputError(StrCat("the stack of '", element.name, "' has no axis ", port.axis));
    }
    Shape shape;
    for (int d = 0; d < rank; ++d) {
      shape.push_back(d == axis ? trips : element.type.shape[d < axis ? d : d - 1]);
    }
    c.set_output(port.operand, {element.type.dtype, shape}, bounded);
  }
  return absl::OkStatus();
}

// --- Loop --------------------------------------------------------------------------------------

// The condition at the end of a trip is a constant true, or the condition that held at its start.
bool AlwaysGoesOn(const InferContext& c, const CallForm& form, const Graph& body) {
  ValueId id = body.outputs[0];
  while (body.value(id).kind == ValueKind::kResult) {
    const Node& producer = body.node(body.value(id).producer);
    if (producer.op != "Identity" || !producer.inputs[0].valid()) return false;
    id = producer.inputs[0];
  }
  std::optional<Tensor> constant = ConstantTensor(body, id);
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i] != id) continue;
    if (form.inputs[i].kind == PortKind::kCondition) return true;
    if (form.inputs[i].kind == PortKind::kSame) constant = c.constant(form.inputs[i].operand);
  }
  return constant.has_value() && constant->AsInt64(0) != 0;
}

struct Trips {
  int64_t count = 0;  // or a bound of it
  bool exact = false;
};

absl::StatusOr<Trips> TripsOf(const InferContext& c, const CallForm& form, const Graph& body) {
  bool goes_on = true;
  if (form.condition >= 0) {
    const std::optional<Tensor> at_first = c.constant(form.condition);
    if (at_first.has_value() && at_first->AsInt64(0) == 0) return Trips{0, true};
    goes_on = at_first.has_value() && AlwaysGoesOn(c, form, body);
  }
  const std::optional<Tensor> limit =
      form.trip_count >= 0 ? c.constant(form.trip_count) : std::nullopt;
  if (!limit.has_value()) {
    if (form.max_trips >= 0) return Trips{form.max_trips, false};
    return BadInputError(
        "how many elements its stacks will have is known only at run time; 'max_trips', or a trip "
        "count that is a constant, would bound it");
  }
  const int64_t count = std::max<int64_t>(0, limit->AsInt64(0));
  if (form.max_trips < 0 || count <= form.max_trips) return Trips{count, goes_on};
  if (!goes_on) return Trips{form.max_trips, false};
  return BadInputError(StrCat("it makes ", count, " trips, but 'max_trips' is ", form.max_trips));
}

absl::Status InferLoop(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const CallForm form,
                            FormOf(ControlFlow::kLoop, c.attrs(), c.num_inputs(), c.num_outputs(),
                                   c.has_input(0), c.has_input(1)));
  MILLRACE_ASSIGN_OR_RETURN(const Graph* body, Body(c));
  if (form.trip_count < 0 && form.condition < 0) {
    return BadInputError("it has neither a trip count nor a condition and would never end");
  }
  if (form.trip_count >= 0 && !IsOne(c.input(0), DType::kI64)) {
    return BadInputError("the trip count must have exactly one element");
  }
  if (form.condition >= 0 && !IsOne(c.input(1), DType::kBool)) {
    return BadInputError("the condition must have exactly one element");
  }
  const Value& goes_on = body->value(body->outputs[0]);
  if (!IsOne(goes_on.type, DType::kBool)) {
    return BadInputError(StrCat("the body's first output is the condition: '", goes_on.name,
                                "' must be one bool, not ", ToString(goes_on.type)));
  }
  MILLRACE_RETURN_IF_ERROR(SetCarried(c, form, *body));
  if (c.num_outputs() == form.num_carried) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Trips trips, TripsOf(c, form, *body));
  return SetStacks(c, form, *body, trips.count, !trips.exact);
}

// --- Scan --------------------------------------------------------------------------------------

absl::Status InferScan(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(
      const CallForm form,
      FormOf(ControlFlow::kScan, c.attrs(), c.num_inputs(), c.num_outputs(), true, true));
  MILLRACE_ASSIGN_OR_RETURN(const Graph* body, Body(c));
  int64_t trips = -1;
  for (const BodyPort& port : form.inputs) {
    if (port.kind != PortKind::kElement) continue;
    const Shape& whole = c.input(port.operand).shape;
    const int64_t size = whole[ElementAxis(port, whole)];
    if (trips >= 0 && size != trips) {
      return BadInputError(StrCat("its sequences have ", trips, " and ", size, " elements"));
    }
    trips = size;
  }
  MILLRACE_RETURN_IF_ERROR(SetCarried(c, form, *body));
  return SetStacks(c, form, *body, trips, /*bounded=*/false);
}

AttrSpec NumCaptures() {
  return {.name = "num_captures",
          .kind = AttrKind::kInt,
          .default_value = int64_t{0},
          .doc = "how many of the last inputs go into each trip unchanged"};
}

AttrSpec Axes(std::string name, std::string doc) {
  return {.name = std::move(name), .kind = AttrKind::kInts, .doc = std::move(doc)};
}

}  // namespace

OpDef LoopOp() {
  return {.name = "Loop",
          .doc = "Runs body until a trip count is reached or a condition no longer holds",
          .inputs = {{.name = "M", .dtypes = {DType::kI64}, .optional = true, .doc = "trip count"},
                     {.name = "cond",
                      .dtypes = {DType::kBool},
                      .optional = true,
                      .doc = "without it the body's condition is ignored"},
                     {.name = "v_initial",
                      .optional = true,
                      .variadic = true,
                      .doc = "carried values, then captures"}},
          .outputs = {{.name = "v_final_and_scan_outputs",
                       .variadic = true,
                       .doc = "carried values, then stacks of the body's other outputs"}},
          .attrs = {NumCaptures(),
                    {.name = "max_trips",
                     .kind = AttrKind::kInt,
                     .doc = "a run may not make more; bounds the stacks"}},
          .subgraphs = {"body"},
          .traits = {.host_inputs = {0, 1}, .control_flow = ControlFlow::kLoop},
          .infer = InferLoop,
          .work = NoWork};
}

OpDef ScanOp() {
  return {.name = "Scan",
          .doc = "Runs body once for each slice of its sequences along an axis",
          .inputs = {{.name = "initial_state_and_scan_inputs",
                      .variadic = true,
                      .doc = "carried values, sequences, captures"}},
          .outputs = {{.name = "final_state_and_scan_outputs",
                       .variadic = true,
                       .doc = "carried values, then stacks of the body's other outputs"}},
          .attrs = {{.name = "num_scan_inputs",
                     .kind = AttrKind::kInt,
                     .required = true,
                     .doc = "number of sequences"},
                    Axes("scan_input_axes", "of each sequence; 0 when absent"),
                    Axes("scan_input_directions", "1: backwards; 0 when absent"),
                    Axes("scan_output_axes", "of each stack; 0 when absent"),
                    Axes("scan_output_directions", "1: backwards; 0 when absent"),
                    NumCaptures()},
          .subgraphs = {"body"},
          .traits = {.control_flow = ControlFlow::kScan},
          .infer = InferScan,
          .work = NoWork};
}

}  // namespace millrace
