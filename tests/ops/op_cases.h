// Nodes of every op with attributes, ranks, broadcasting and sizes that matter, for tests that hold
// of all ops: gradients, sharding rules, element types.
#ifndef MILLRACE_TESTS_OPS_OP_CASES_H_
#define MILLRACE_TESTS_OPS_OP_CASES_H_

#include <string>
#include <vector>

#include "graph/graph.h"

namespace millrace::optest {

struct OpCase {
  std::string name;  // "Conv: groups"
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;  // data are f64; no data: omitted
  int num_outputs = 1;
};

// Ops that run on a device by a kernel of their own: all but control flow and comm.
std::vector<OpCase> OpCases();

// {{"axis", 1}, {"mode", "x"}} as attributes.
Attrs MakeAttrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items);

}  // namespace millrace::optest

#endif  // MILLRACE_TESTS_OPS_OP_CASES_H_
