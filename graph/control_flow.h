// How the operands of a control-flow node meet those of its bodies: the meaning of If, Loop and
// Scan as data, for all who follow values into nested graphs and out again.
//
//   If:    inputs condition, then captures. Both bodies take the captures as their inputs and give
//          the node's outputs, one to one.
//   Loop:  inputs trip count (optional), condition (optional), carried values, captures; outputs
//          carried values, stacks. Body: (trip, condition, carried..., captures...) ->
//          (condition, carried..., elements...).
//   Scan:  inputs carried values, sequences, captures; outputs carried values, stacks. Body:
//          (carried..., elements..., captures...) -> (carried..., elements...).
//
// One run of a loop's body is a trip. A carried value enters the first trip as the node's input,
// each later one as the body's output of the trip before, and leaves as the node's output: after no
// trip at all it is the node's input. A sequence or stack is cut along an axis into elements, one a
// trip. Captures are the same in every trip. A Loop goes on while the trip count (if there is one)
// is not reached and the condition (if there is one; else the body's is ignored) holds.
//
// Attributes, beyond ONNX: `num_captures`, how many of a loop's last inputs are captures (0);
// `max_trips` of Loop, which a run may not exceed.
#ifndef MILLRACE_GRAPH_CONTROL_FLOW_H_
#define MILLRACE_GRAPH_CONTROL_FLOW_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op_traits.h"
#include "graph/status.h"

namespace millrace {

enum class PortKind : uint8_t {
  kSame,       // is the node's operand
  kCarried,    // from trip to trip; carried inputs and outputs pair up in order
  kElement,    // of the node's operand, along an axis
  kTrip,       // the trip's number from 0: i64, one element
  kCondition,  // as a body's input, true; as its output, whether another trip follows: bool, one
               // element
};

std::string_view ControlFlowName(ControlFlow flow);  // "none", "if", "loop", "scan"

// One input or output of a body.
struct BodyPort {
  PortKind kind = PortKind::kSame;
  int operand = -1;        // of the node: an input for inputs, an output for outputs; -1: none
  int axis = 0;            // kElement: of the node's operand; counts from the end when negative
  bool backwards = false;  // kElement: trip 0 has the last one
};

struct CallForm {
  ControlFlow kind = ControlFlow::kNone;
  int condition = -1, trip_count = -1;  // node inputs that the host reads; -1: none
  int64_t max_trips = -1;               // -1: any number
  int num_bodies = 0;
  std::vector<BodyPort> inputs = {}, outputs = {};                   // the same for all bodies
  int first_carried_in = 0, first_carried_out = 0, num_carried = 0;  // places among those

  bool IsLoop() const { return kind == ControlFlow::kLoop || kind == ControlFlow::kScan; }
};

// From the node's attributes and operands; trusts nothing of them. BadInputError when they do not
// make sense ("num_captures is 3, but there are 2 inputs").
absl::StatusOr<CallForm> FormOf(ControlFlow kind, const Node& node);
// The same of a node with so many operands, of which condition and trip count may be left out.
absl::StatusOr<CallForm> FormOf(ControlFlow kind, const Attrs& attrs, int num_inputs,
                                int num_outputs, bool has_trip_count, bool has_condition);

// The trips to reckon with: those of a Scan; of a Loop its trip count where that is a constant, else
// what bounds it. -1: nothing does. `graph` is the node's.
int64_t PlannedTrips(const CallForm& form, const Graph& graph, const Node& node);

// The port's axis in [0, rank) of the whole it is cut from, or -1 when there is no such axis.
int ElementAxis(const BodyPort& port, const Shape& whole);
// `whole` without dim `axis`.
Shape ElementShape(const Shape& whole, int axis);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CONTROL_FLOW_H_
