// y = relu(x w), with w = [[1, 2], [3, 4]]: small enough to work out by hand.
#ifndef MILLRACE_TESTS_TOOLS_TINY_GRAPH_H_
#define MILLRACE_TESTS_TOOLS_TINY_GRAPH_H_

#include <string>
#include <string_view>

#include "tests/tools/run_millrace.h"

namespace millrace {

inline constexpr std::string_view kTinyGraph = R"({
  "format": "millrace-graph", "version": "1.0", "name": "tiny",
  "symbols": {"N": {"min": 1, "max": 64, "default": 2}},
  "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": ["N", 2]}}],
  "params": [{"name": "w", "type": {"dtype": "f32", "shape": [2, 2]},
              "data": {"inline": [1, 2, 3, 4]}, "trainable": true}],
  "nodes": [
    {"name": "mm", "op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
    {"name": "act", "op": "Relu", "inputs": ["h"], "outputs": ["y"]}
  ],
  "outputs": ["y"]
})";

// The path of a file with it.
inline std::string TinyFile() { return WriteTestFile("tiny.json", kTinyGraph); }

}  // namespace millrace

#endif  // MILLRACE_TESTS_TOOLS_TINY_GRAPH_H_
