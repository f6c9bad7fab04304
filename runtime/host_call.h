// HostCall at run time: a kernel on the host, with true shapes where operands are bounded.
#ifndef MILLRACE_RUNTIME_HOST_CALL_H_
#define MILLRACE_RUNTIME_HOST_CALL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/plan.h"
#include "graph/types.h"
#include "runtime/device.h"
#include "runtime/kernel.h"

namespace millrace {

// The true shape of each value (and microbatch) that a HostCall touches, for one program at one
// mesh coordinate; bounds until a kernel writes them. A value of true shape s lies dense, as s
// says, from the first byte of its slice. Cells are accessed in the order the plan gives to the
// value's bytes.
using ShapeCells = std::map<std::pair<ValueRef, int32_t>, Shape>;

// The cell of `value`, which has the type's shape when it is made. Never moves.
Shape* ShapeCellOf(ShapeCells& cells, const ValueRef& value, int32_t microbatch,
                   const Shape& bound);

// A function for Stream::RunOnHost with everything it needs. Stays where it is: `function` holds
// its address.
struct HostStep {
  HostFunction function;

  // A kernel call...
  Kernel* kernel = nullptr;
  std::vector<void*> inputs, outputs;
  bool true_shapes = false;                // some operand is bounded; else the rest is empty
  std::vector<const Shape*> input_shapes;  // null: absent
  std::vector<Shape*> output_shapes;
  std::vector<Shape> output_bounds;
  std::vector<bool> output_bounded;

  // ... or shapes that enter or leave the body of a Call.
  std::vector<std::pair<Shape*, const Shape*>> moves;  // to <- from
};

// Sets `function` to run the kernel, and to check the shapes it writes against the bounds.
void MakeKernelCall(HostStep& step);
// Sets `function` to make the moves.
void MakeShapeMoves(HostStep& step);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_HOST_CALL_H_
