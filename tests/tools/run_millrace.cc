#include "tests/tools/run_millrace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/assert.h"
#include "graph/strings.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

// In the child: standard output or error to a file.
void Redirect(const std::string& path, int to) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, to);
  close(fd);
}

}  // namespace

std::string TestFolder() {
  static const TemporaryFolder folder;
  return folder.path();
}

std::string TestPath(std::string_view name) { return StrCat(TestFolder(), "/", name); }

std::string WriteTestFile(std::string_view name, std::string_view contents) {
  std::string path = StrCat(TestFolder(), "/", name);
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

std::string SourceFile(std::string_view path) { return StrCat(MILLRACE_SOURCE_DIR "/", path); }

RunningMillrace::RunningMillrace(const std::vector<std::string>& arguments) {
  static int runs = 0;
  out_path_ = StrCat(TestFolder(), "/stdout.", runs);
  err_path_ = StrCat(TestFolder(), "/stderr.", runs++);
  std::vector<std::string> owned = arguments;
  owned.insert(owned.begin(), MILLRACE_COMMAND);
  std::vector<char*> argv;
  for (std::string& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    Redirect(out_path_, STDOUT_FILENO);
    Redirect(err_path_, STDERR_FILENO);
    execv(MILLRACE_COMMAND, argv.data());
    _exit(127);
  }
  MILLRACE_CHECK(pid_ > 0);
}

CommandResult RunningMillrace::Wait() {
  int status = 0;
  MILLRACE_CHECK(waitpid(pid_, &status, 0) == pid_);
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = ReadTestFile(out_path_);
  result.err = ReadTestFile(err_path_);
  return result;
}

CommandResult RunMillrace(const std::vector<std::string>& arguments) {
  return RunningMillrace(arguments).Wait();
}

}  // namespace millrace
