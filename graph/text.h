// The canonical text form of a graph: one line per value or node, for people, golden tests and
// diffs. Print and Parse are exact inverses on everything but file positions and weights' bytes.
//
//   graph "mlp"
//   symbol N = 8 min 1 max 1024
//   weights w = "mlp.safetensors"
//   input x : f32[8,784] dims ["N", 784]
//   param fc.w : f32[784,10] trainable = file w "fc.weight"
//   const eps : f32[] = splat 1e-05
//   const k : i64[2] = inline [3, 4]
//   mm: h : f32[8,10] = MatMul(x, fc.w) {transB = 1} scope "fc"
//   branch: y : f32[8,10] = If(c, h) {
//     then_branch = graph {
//       ...
//     }
//   }
//   sum: z, _ = Split(y, _) {axis = 1} after [mm] device "cuda:0" stream 0
//   update fc.w <- w2
//   output z
//
// Names that are not [A-Za-z_][A-Za-z0-9_./:-]* are quoted as JSON strings. A node whose name is
// that of its first output is printed without "name:". "_" is an omitted input or output.
#ifndef MILLRACE_GRAPH_TEXT_H_
#define MILLRACE_GRAPH_TEXT_H_

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

std::string ToText(const Graph& graph);

// BadInputError with "file:line:column: ..." on the first error. Results without ": type" are
// untyped. The result is not verified.
absl::StatusOr<Graph> ParseGraphText(std::string_view text, std::string_view file = "");

// Equal up to file positions, file and directory: ToText(a) == ToText(b).
bool SameGraph(const Graph& a, const Graph& b);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TEXT_H_
