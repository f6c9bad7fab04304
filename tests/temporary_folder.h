#ifndef MILLRACE_TESTS_TEMPORARY_FOLDER_H_
#define MILLRACE_TESTS_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace millrace {

// A new, empty folder of this object's own (tests run side by side, in processes of their own);
// removed at the end with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "/millrace_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot create " << path_;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // The path of a file in it, there or not.
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TEMPORARY_FOLDER_H_
