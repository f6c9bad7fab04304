// The generated protobuf classes of ONNX. Included by few .cc files only: it is large.
#ifndef MILLRACE_OPS_ONNX_PROTO_H_
#define MILLRACE_OPS_ONNX_PROTO_H_

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

#endif  // MILLRACE_OPS_ONNX_PROTO_H_
