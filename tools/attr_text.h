// Attributes as people read them: "[1, 1]", "\"same\"", "true".
#ifndef MILLRACE_TOOLS_ATTR_TEXT_H_
#define MILLRACE_TOOLS_ATTR_TEXT_H_

#include <string>

#include "graph/graph.h"

namespace millrace {

std::string AttrText(const AttrValue& value);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_ATTR_TEXT_H_
