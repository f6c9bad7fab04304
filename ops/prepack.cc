#include "ops/prepack.h"

namespace millrace {

Attrs PrepackAttrs(const NodeQuery& reader, int input) {
  Attrs attrs;
  attrs.Set("input", int64_t{input});
  attrs.Set("reader", QueryToJson(reader));
  return attrs;
}

bool PacksFor(const Node& node, const NodeQuery& reader, int input) {
  return node.op == kPrepack && node.attrs == PrepackAttrs(reader, input);
}

}  // namespace millrace
