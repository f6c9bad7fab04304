// Names from files, shown to people: a hostile one must not move a terminal's cursor, end a line to
// fake the next, or reorder what stands beside it.
#ifndef MILLRACE_GRAPH_PRINTABLE_H_
#define MILLRACE_GRAPH_PRINTABLE_H_

#include <string>
#include <string_view>

namespace millrace {

// `text` with control characters, bytes that are not UTF-8, and the characters that reorder text
// spelled out: \n, \x1b, \u202e.
std::string Printable(std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_PRINTABLE_H_
