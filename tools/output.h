// What a subcommand writes to stdout.
#ifndef MILLRACE_TOOLS_OUTPUT_H_
#define MILLRACE_TOOLS_OUTPUT_H_

#include <string_view>

#include "nlohmann/json.hpp"

namespace millrace {

// A JSON document of `format`, version 1.0, to be filled in key by key.
using Json = nlohmann::ordered_json;
Json JsonHeader(std::string_view format);

void Print(std::string_view text);
void PrintJson(const Json& document);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_OUTPUT_H_
