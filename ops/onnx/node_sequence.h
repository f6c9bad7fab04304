// The order in which the nodes of an ONNX graph can be read.
#ifndef MILLRACE_OPS_ONNX_NODE_SEQUENCE_H_
#define MILLRACE_OPS_ONNX_NODE_SEQUENCE_H_

#include <string>
#include <vector>

#include "graph/status.h"

namespace google::protobuf {
template <typename T>
class RepeatedPtrField;
}  // namespace google::protobuf

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace millrace {

// Indices of `nodes`, each after the nodes whose results it, or a graph nested in it, reads. ONNX
// asks files to list nodes so, and where they do the order is theirs; not all do. BadInputError
// names the nodes of a cycle. O(n log n) in what the nodes read.
absl::StatusOr<std::vector<int>> NodeSequence(
    const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_NODE_SEQUENCE_H_
