// Files of instances, for programs that take files and folders of them.
#ifndef MILLRACE_BENCH_INSTANCE_FILES_H_
#define MILLRACE_BENCH_INSTANCE_FILES_H_

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace millrace {

// The paths as they are; of a folder, the files in it with one of the endings, by name.
inline std::vector<std::string> InstanceFiles(std::span<const std::string> paths,
                                              std::span<const std::string_view> endings) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      const std::string name = entry.path().filename();
      const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
      if (std::ranges::any_of(endings, ends)) found.push_back(entry.path());
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace millrace

#endif  // MILLRACE_BENCH_INSTANCE_FILES_H_
