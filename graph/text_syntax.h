// The words of the text form, shared by its printer and its parser.
#ifndef MILLRACE_GRAPH_TEXT_SYNTAX_H_
#define MILLRACE_GRAPH_TEXT_SYNTAX_H_

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace millrace {

bool IsNameStart(char c);
bool IsNameChar(char c);

// `name` bare if it can stand so, quoted otherwise.
std::string NameText(std::string_view name);
// As a JSON string.
std::string QuoteText(std::string_view text);

// Shortest decimal that reads back as the same number, always with '.', an exponent, or "nan",
// "inf", "-inf", so that it reads back as a double.
std::string NumberText(double value);
std::string NumberText(float value);

std::string_view InitKindText(InitKind kind);  // "zeros", ..., as in graph files
std::optional<InitKind> ParseInitKind(std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TEXT_SYNTAX_H_
