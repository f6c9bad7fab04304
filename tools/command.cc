#include "tools/command.h"

#include <cstdio>

namespace millrace {

CLI::Option* AddRepeated(CLI::App& command, const std::string& name, const std::string& form,
                         std::vector<std::string>& values, const std::string& doc) {
  return command.add_option(name, values, doc)->type_name(form)->allow_extra_args(false);
}

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
