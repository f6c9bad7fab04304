// How low and how fast the offset planner packs instances from files: `memory_planner
// FILE|FOLDER...`. Prints one line an instance. An instance named NAME.CAPACITY.csv is packed into
// that capacity, as its publishers did; others, and all with --lowest, as low as possible.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/instance_files.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "passes/memory/instance_csv.h"
#include "passes/memory/pack.h"

namespace millrace {
namespace {

constexpr std::string_view kInstanceEndings[] = {".csv"};

struct Flags {
  std::vector<std::string> paths;
  int64_t max_work = 1'000'000'000;
  int repetitions = 1;
  bool lowest = false;
};

// What the instances' publishers need at that capacity (google/minimalloc).
const std::map<std::string, double, std::less<>> kPublishedMs = {
    {"A.1048576", 4910}, {"B.1048576", 3661}, {"C.1048576", 637},  {"D.1048576", 2674},
    {"E.1048576", 3717}, {"F.1048576", 5358}, {"G.1048576", 1181}, {"H.1048576", 1808}};

// The number between the last two dots of "A.1048576.csv"; 0 when there is none.
int64_t CapacityInName(const std::string& file) {
  const std::string extension = std::filesystem::path(file).stem().extension();
  int64_t capacity = 0;
  if (extension.size() > 1) {
    std::from_chars(extension.data() + 1, extension.data() + extension.size(), capacity);
  }
  return capacity;
}

absl::Status PackFile(const std::string& file, const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  MILLRACE_ASSIGN_OR_RETURN(const auto buffers, ParseInstanceCsv(text, file));
  PackOptions options;
  options.max_work = flags.max_work;
  options.capacity_bytes = flags.lowest ? 0 : CapacityInName(file);
  double wall_ms = 0, processor_ms = 0;
  Packing packing;
  for (int i = 0; i < flags.repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t processor_start = std::clock();
    MILLRACE_ASSIGN_OR_RETURN(packing, Pack(buffers, options));
    const double processor = 1e3 * static_cast<double>(std::clock() - processor_start) /
                             static_cast<double>(CLOCKS_PER_SEC);
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
    wall_ms = i == 0 ? wall.count() : std::min(wall_ms, wall.count());
    processor_ms = i == 0 ? processor : std::min(processor_ms, processor);
  }
  const std::string name = std::filesystem::path(file).stem();
  const auto published = kPublishedMs.find(name);
  const double bound = static_cast<double>(std::max<int64_t>(1, packing.lower_bound_bytes));
  std::printf("%-16s %8zu %12lld %12lld %9.4f %% %10.2f ms %10.2f ms", name.c_str(), buffers.size(),
              static_cast<long long>(packing.lower_bound_bytes),
              static_cast<long long>(packing.height_bytes),
              100 * (static_cast<double>(packing.height_bytes) / bound - 1), wall_ms, processor_ms);
  if (published != kPublishedMs.end() && !flags.lowest) {
    std::printf(" %8.0f ms", published->second);
  }
  std::printf("\n");
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  std::printf("%-16s %8s %12s %12s %11s %13s %11s\n", "instance", "buffers", "bound", "height",
              "gap", "time", "published");
  for (const std::string& file : InstanceFiles(flags.paths, kInstanceEndings)) {
    MILLRACE_RETURN_IF_ERROR(PackFile(file, flags));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Flags flags;
  CLI::App app("Packs memory planning instances (CSV: id,lower,upper,size)");
  app.add_option("paths", flags.paths, "Files, or folders of .csv files")->required();
  app.add_option("--max-work", flags.max_work, "Steps to search for [1e9, about a second or two]");
  app.add_option("--repetitions", flags.repetitions, "Report the shortest time of so many [1]")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--lowest", flags.lowest, "As low as possible, whatever capacity a name says");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return millrace::ExitCode(status);
}
