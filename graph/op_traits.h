// What the plan checker and the planners may assume about an op, as data. OpDefs in ops/ are the
// source; the checker is handed a table of them and knows no op by name.
#ifndef MILLRACE_GRAPH_OP_TRAITS_H_
#define MILLRACE_GRAPH_OP_TRAITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace millrace {

// What a Call of this op does with the node's nested graphs (graph/control_flow.h).
enum class ControlFlow : uint8_t {
  kNone,
  kIf,    // runs one of two bodies, by a condition
  kLoop,  // runs its body again and again, up to a trip count, while a condition holds
  kScan,  // runs its body once for each slice of its inputs along an axis
};

// What a Collective of this op does over the mesh axes its node names in attribute "axis".
enum class CommKind : uint8_t {
  kNone,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kPublish,
  kTakeLatest,
};

// Outputs that are nothing but elements of inputs, in their order (graph/view.h). Where they are
// contiguous, whoever reads the output may as well read the input's bytes.
enum class ViewKind : uint8_t {
  kNone,
  kWhole,  // output 0 is input 0, under another shape
  kJoin,   // output 0 is the inputs, one after another along attribute "axis"
  kSplit,  // the outputs, one after another along attribute "axis" (0), are input 0
  kSlice,  // output 0 is a range of input 0: inputs starts, ends, axes, steps, as ONNX has them
};

struct InPlacePair {
  int output = 0;
  int input = 0;
  bool operator==(const InPlacePair&) const = default;
};

struct OpTraits {
  // A kernel may write `output` over the very bytes of `input`; every kernel of the op must be
  // right when it does. The pair only applies when both have the same type.
  std::vector<InPlacePair> in_place = {};
  // Operands the host must read (shapes, k, conditions): they lie in host memory.
  std::vector<int> host_inputs = {};
  ControlFlow control_flow = ControlFlow::kNone;
  CommKind comm = CommKind::kNone;
  bool host_call = false;     // output sizes depend on data: runs on the host, by HostCall only
  bool has_effects = false;   // not removable, not duplicable
  bool deterministic = true;  // same inputs, same bits
  ViewKind view = ViewKind::kNone;
};

// By op name. An op that is not in the table is unknown to whoever holds the table.
using OpTraitsTable = std::map<std::string, OpTraits, std::less<>>;

}  // namespace millrace

#endif  // MILLRACE_GRAPH_OP_TRAITS_H_
