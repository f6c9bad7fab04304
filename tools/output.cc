#include "tools/output.h"

#include <cstdio>
#include <string>

namespace millrace {

Json JsonHeader(std::string_view format) {
  Json document;
  document["format"] = std::string(format);
  document["version"] = "1.0";
  return document;
}

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& document) {
  Print(document.dump(2, ' ', false, Json::error_handler_t::replace));
  Print("\n");
}

}  // namespace millrace
