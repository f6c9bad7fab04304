// The protobuf wire format, read directly for what protobuf's own parser does not tell: where in
// the bytes a fault lies, at which byte a message begins, and how much memory parsing would take.
#ifndef MILLRACE_OPS_ONNX_WIRE_H_
#define MILLRACE_OPS_ONNX_WIRE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/diagnostics.h"

namespace google::protobuf {
class Descriptor;
}  // namespace google::protobuf

namespace millrace {

// Messages within messages, at most. A nested graph is three levels down.
inline constexpr int kMaxMessageDepth = 200;

// Adds at most one diagnostic, with its byte offset and the path of the field ("/graph/node/3"): a
// varint or a length that runs past its end, a wire type that is not the field's, messages nested
// too deep, or so many that a small file would fill the memory. `type` tells which fields are
// messages. When it finds nothing, protobuf parses the bytes. One pass; large fields are skipped.
void CheckWireFormat(std::string_view bytes, const google::protobuf::Descriptor& type,
                     std::string_view file, Diagnostics& diagnostics);

// One step from a message to one of its submessages: field number, and which of its repetitions.
struct WireStep {
  int field = 0;
  int index = 0;
};
// The byte at which the message at the end of `path` begins; -1 when it is not there.
int64_t OffsetOf(std::string_view bytes, std::span<const WireStep> path);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_WIRE_H_
