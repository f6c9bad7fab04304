// The canonical text form of a graph: one line per value or node, for people, golden tests and
// diffs. Print and Parse are exact inverses on everything but file positions and weights' bytes.
//
//   graph mlp
//   opset core = 1
//   symbol N = 8 min 1 max 1024
//   weights w = "mlp.safetensors"
//   mesh "data=2"                     with local types: mesh "data=2" local, and what is given cut:
//   const p : i64[2] sharded "data:0" = inline [0, 1, 2, 3]
//   input x : f32[8,784]
//   param fc.w : f32[784,10] trainable = file w "fc.weight"
//   const eps : f32[] = splat 1e-05
//   const k : i64[2] = inline [3, 4]
//   mm: h : f32[8,10] = MatMul(x, fc.w) {transB = 1} scope "fc"
//   z : f32[8,10], _ = Split(h) {axis = 1} after [mm] device "cuda:0" stream 0
//   y : f32[8,10] = If(c, z) graph then_branch {
//     input a : f32[8,10]
//     t : f32[8,10] = Relu(a)
//     output t
//   } graph else_branch {
//     ...
//   }
//   update fc.w <- w2
//   output y
//   dims x = ["N", "784"]
//   sharding x = "data:0"
//   doc x = "the images"
//
// Names that are not [A-Za-z_][A-Za-z0-9_./-]*, that are "_", a dtype or a word that opens a line are
// quoted as JSON strings. A node whose name is that of its first output is printed without "name:". "_" is
// an omitted input or output. "#" starts a comment.
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
