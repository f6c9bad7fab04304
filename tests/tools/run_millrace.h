// Runs the built `millrace` as a user does: a process, its exit code, stdout and stderr.
#ifndef MILLRACE_TESTS_TOOLS_RUN_MILLRACE_H_
#define MILLRACE_TESTS_TOOLS_RUN_MILLRACE_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace millrace {

struct CommandResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;

  // stdout as JSON; a discarded value when it is not.
  nlohmann::json Json() const { return nlohmann::json::parse(out, nullptr, false); }
};

CommandResult RunMillrace(const std::vector<std::string>& arguments);

// The same in two halves, for tests that do something to it meanwhile. Wait is called once.
class RunningMillrace {
 public:
  explicit RunningMillrace(const std::vector<std::string>& arguments);
  pid_t pid() const { return pid_; }
  CommandResult Wait();

 private:
  pid_t pid_ = -1;
  std::string out_path_, err_path_;
};

// A fresh folder for this test process, removed at its end.
std::string TestFolder();
std::string TestPath(std::string_view name);  // in it
// Writes `contents` to TestFolder()/name; the path.
std::string WriteTestFile(std::string_view name, std::string_view contents);
std::string ReadTestFile(const std::string& path);

// A file of the repository.
std::string SourceFile(std::string_view path);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TOOLS_RUN_MILLRACE_H_
