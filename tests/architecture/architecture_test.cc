// The design's rules about the tree that a compiler does not enforce: who may include whom, what
// lies at the top level, how long a file may get.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = MILLRACE_SOURCE_DIR;

struct SourceFile {
  std::string path;  // from the root
  std::vector<std::string> lines;
};

std::vector<SourceFile> SourcesIn(const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") {
        continue;
      }
      SourceFile file{fs::relative(entry.path(), kRoot), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

// The unit of the include rules a path belongs to: the longest of the keys below that it is in.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"graph", {"graph"}},
    {"graph/check", {"graph", "graph/check"}},
    {"ops", {"graph", "ops"}},
    {"ops/cpu", {"graph", "graph/check", "ops", "runtime", "ops/cpu"}},
    {"ops/onnx", {"graph", "ops", "ops/onnx"}},
    {"ops/cuda", {"graph", "graph/check", "ops", "runtime", "runtime/cuda", "ops/cuda"}},
    {"passes", {"graph", "ops", "passes"}},
    {"runtime", {"graph", "graph/check", "runtime"}},
    {"runtime/cuda", {"graph", "graph/check", "runtime", "runtime/cuda"}},
    {"distributed", {"graph", "graph/check", "runtime", "distributed"}},
};

std::string UnitOf(std::string path) {
  while (!path.empty()) {
    path = fs::path(path).parent_path();
    if (kMayInclude.contains(path)) return path;
  }
  return "";
}

// The path between quotes of an #include "..." line, or "".
std::string QuotedInclude(const std::string& line) {
  constexpr std::string_view kPrefix = "#include \"";
  if (!line.starts_with(kPrefix)) return "";
  return line.substr(kPrefix.size(), line.find('"', kPrefix.size()) - kPrefix.size());
}

TEST(Includes, FollowTheArrowsOfTheDesign) {
  for (const SourceFile& file : SourcesIn({"graph", "ops", "passes", "runtime", "distributed"})) {
    const std::string unit = UnitOf(file.path);
    ASSERT_FALSE(unit.empty()) << file.path;
    for (const std::string& line : file.lines) {
      const std::string target = UnitOf(QuotedInclude(line));
      if (target.empty()) continue;  // a system or third-party header
      EXPECT_TRUE(kMayInclude.at(unit).contains(target)) << file.path << " may not " << line;
    }
  }
}

// Tools and tests bind everything; nothing includes them.
TEST(Includes, NothingIncludesToolsTestsOrBench) {
  for (const SourceFile& file : SourcesIn({"graph", "ops", "passes", "runtime", "distributed"})) {
    for (const std::string& line : file.lines) {
      const std::string target = QuotedInclude(line);
      for (const char* folder : {"tools/", "tests/", "bench/"}) {
        EXPECT_FALSE(target.starts_with(folder)) << file.path << " may not " << line;
      }
    }
  }
}

TEST(Includes, OnlyTheCudaFoldersSeeCudaHeaders) {
  const std::set<std::string> kCudaHeaders = {
      "cuda.h", "cuda_runtime.h", "cublasLt.h",        "cudnn.h",
      "nccl.h", "nvrtc.h",        "nvtx3/nvToolsExt.h"};
  for (const SourceFile& file : SourcesIn({"graph", "ops", "passes", "runtime", "distributed"})) {
    const std::string unit = UnitOf(file.path);
    const bool may =
        unit == "runtime/cuda" || unit == "ops/cuda" || file.path.find("nccl") != std::string::npos;
    for (const std::string& line : file.lines) {
      if (may || !line.starts_with("#include <")) continue;
      const std::string header = line.substr(10, line.find('>') - 10);
      EXPECT_FALSE(kCudaHeaders.contains(header)) << file.path << " may not " << line;
    }
  }
}

TEST(Includes, OnlyOpsOnnxSeesProtobuf) {
  for (const SourceFile& file :
       SourcesIn({"graph", "ops", "passes", "runtime", "distributed", "tools"})) {
    if (UnitOf(file.path) == "ops/onnx") continue;
    for (const std::string& line : file.lines) {
      for (const char* header : {"#include <google/protobuf/", "#include <onnx/"}) {
        EXPECT_FALSE(line.starts_with(header)) << file.path << " may not " << line;
      }
    }
  }
}

TEST(Tree, TopLevelIsTheAgreedOne) {
  const std::set<std::string> kAgreed = {"CMakeLists.txt",
                                         "CMakePresets.json",
                                         "CONTRIBUTING.md",
                                         "LICENSE",
                                         "README.md",
                                         "bench",
                                         "distributed",
                                         "graph",
                                         "ops",
                                         "passes",
                                         "runtime",
                                         "tests",
                                         "tools"};
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(".") && !name.starts_with("build")) found.insert(name);
  }
  EXPECT_EQ(found, kAgreed);
}

TEST(Tree, EveryFolderHasAReadme) {
  for (const char* folder :
       {"bench", "distributed", "graph", "ops", "passes", "runtime", "tests", "tools"}) {
    EXPECT_TRUE(fs::exists(kRoot / folder / "README.md")) << folder;
  }
}

TEST(Tree, FilesStayReadable) {
  for (const SourceFile& file :
       SourcesIn({"graph", "ops", "passes", "runtime", "distributed", "tools", "tests", "bench"})) {
    EXPECT_LE(file.lines.size(), 700u) << file.path;
  }
}

}  // namespace
}  // namespace millrace
