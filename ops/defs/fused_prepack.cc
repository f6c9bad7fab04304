// fused.Prepack: its operand's elements, unchanged, in a place where they may lie as the kernel of
// one reader wants them (Layout::kPacked). What that is follows from the reader's query.
#include <cstring>

#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(c.attrs().String("reader", ""));
  if (!reader.ok()) {
    return BadInputError(StrCat("'reader' is no query: ", StdView(reader.status().message())));
  }
  const int64_t input = c.attrs().Int("input", 0);
  const bool reads = input >= 0 && input < std::ssize(reader->inputs) &&
                     reader->inputs[input].has_value() &&
                     reader->inputs[input]->shape == c.input(0).shape;
  if (!reads) {
    return BadInputError(
        StrCat("'reader' has no input ", input, " of shape ", ToString(c.input(0).shape)));
  }
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.inputs[0].size_bytes() == 0) return absl::OkStatus();
  std::memcpy(c.outputs[0].mutable_bytes(), c.inputs[0].bytes(), c.inputs[0].size_bytes());
  return absl::OkStatus();
}

}  // namespace

OpDef FusedPrepackOp() {
  return {.name = std::string(kPrepack),
          .doc = "The input, unchanged, placed as the kernel that reads it wants it",
          .inputs = {{.name = "W", .same_as = "T"}},
          .outputs = {{.name = "packed", .same_as = "T"}},
          .attrs = {{.name = "reader",
                     .kind = AttrKind::kString,
                     .required = true,
                     .doc = "the query of the node that reads it, as JSON"},
                    {.name = "input",
                     .kind = AttrKind::kInt,
                     .required = true,
                     .doc = "which of its inputs it is"}},
          .infer = Infer,
          .reference = Reference};
}

}  // namespace millrace
