// bench/run: suites together in one file, compared with an older one. The suite here is a script
// that answers as Google Benchmark's binaries do, with times from a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSuite = R"(#!/bin/sh
for option; do
  case "$option" in
    --benchmark_list_tests) printf 'Load/10\nLoad/20\n'; exit 0 ;;
    --benchmark_out=*) file="${option#--benchmark_out=}" ;;
  esac
done
cp "$(dirname "$0")/times.json" "$file"
)";

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path) << text;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class BenchRun : public testing::Test {
 protected:
  BenchRun() {
    std::filesystem::create_directories(folder_.File("bench"));
    const std::filesystem::path suite = folder_.File("bench/fake_bench");
    WriteFile(suite, kSuite);
    std::filesystem::permissions(suite, std::filesystem::perms::owner_all);
    SetTimes(2, 3);
  }

  // Least processor times, in milliseconds, of two repetitions each.
  void SetTimes(double ten, double twenty) {
    nlohmann::json document = {{"context", {{"num_cpus", 2}}},
                               {"benchmarks", nlohmann::json::array()}};
    const auto add = [&](const char* name, double time) {
      for (const double each : {time, 1.5 * time}) {
        document["benchmarks"].push_back({{"name", name},
                                          {"run_name", name},
                                          {"run_type", "iteration"},
                                          {"cpu_time", each},
                                          {"time_unit", "ms"}});
      }
    };
    add("Load/10", ten);
    add("Load/20", twenty);
    WriteFile(folder_.File("bench/times.json"), document.dump());
  }

  // The exit code; what was printed is in out_.
  int Run(const std::string& arguments) {
    const std::string out = folder_.File("out.txt");
    const std::string command = std::string(MILLRACE_SOURCE_DIR) + "/bench/run --build " +
                                folder_.path() + " " + arguments + " > " + out + " 2>&1";
    const int status = std::system(command.c_str());
    out_ = ReadFile(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TemporaryFolder folder_;
  std::string out_;
};

TEST_F(BenchRun, WritesAllSuitesInGoogleBenchmarksLayout) {
  EXPECT_EQ(Run("-o " + folder_.File("new.json")), 0) << out_;
  const nlohmann::json document = nlohmann::json::parse(ReadFile(folder_.File("new.json")));
  ASSERT_EQ(document["benchmarks"].size(), 4u);
  EXPECT_EQ(document["benchmarks"][0]["name"], "fake_bench/Load/10");
  EXPECT_EQ(document["context"]["num_cpus"], 2);
}

TEST_F(BenchRun, RefusesWhatBecameSlower) {
  ASSERT_EQ(Run("-o " + folder_.File("old.json")), 0) << out_;
  SetTimes(2, 3.5);
  EXPECT_EQ(Run("-o " + folder_.File("new.json") + " --compare " + folder_.File("old.json")), 1);
  EXPECT_THAT(out_, HasSubstr("fake_bench/Load/20       3 ms     3.5 ms   +16.7%  slower"));
  EXPECT_THAT(out_, HasSubstr("verdict: 1 slower by more than 10% (2 compared)"));
}

TEST_F(BenchRun, AcceptsWhatIsWithinTheTolerance) {
  ASSERT_EQ(Run("-o " + folder_.File("old.json")), 0) << out_;
  SetTimes(1, 3.2);
  EXPECT_EQ(Run("-o " + folder_.File("new.json") + " --compare " + folder_.File("old.json")), 0)
      << out_;
  EXPECT_THAT(out_, HasSubstr("-50.0%  faster"));
  EXPECT_THAT(out_, HasSubstr("verdict: no regression (2 compared)"));
}

TEST_F(BenchRun, SaysWhatIsWrong) {
  EXPECT_EQ(Run("--suite other_bench"), 2);
  EXPECT_THAT(out_, HasSubstr("no such suite"));
  EXPECT_EQ(Run("--filter Save -o " + folder_.File("new.json")), 2);
  EXPECT_THAT(out_, HasSubstr("no benchmark is called so"));
  WriteFile(folder_.File("old.json"), "{}");
  EXPECT_EQ(Run("--compare " + folder_.File("old.json")), 3);
  EXPECT_THAT(out_, HasSubstr("not a result of this command"));
}

}  // namespace
}  // namespace millrace
