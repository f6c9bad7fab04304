// How the project's JSON files spell strings and numbers: one spelling each, so that the same data
// give the same bytes.
#ifndef MILLRACE_GRAPH_JSON_TEXT_H_
#define MILLRACE_GRAPH_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace millrace {

// `s` in quotes; escapes quotes, backslashes and control characters, and leaves UTF-8 as it is.
std::string JsonString(std::string_view s);
void AppendJsonString(std::string* to, std::string_view s);

// The shortest decimal that reads back as the same number, always with '.' or an exponent so that
// it reads back as a double; "nan", "inf" and "-inf" in quotes. The float forms are shortest for
// floats.
std::string JsonNumber(double value);
void AppendJsonNumber(std::string* to, double value);
void AppendJsonNumber(std::string* to, float value);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_JSON_TEXT_H_
