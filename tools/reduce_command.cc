// `millrace reduce`: from a graph that shows a fault to a small one that still does.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/differential.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/reduce_graph.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSeconds = 86400;

struct ReduceOptions {
  std::string file;
  std::string output;
  std::string test;
  bool mismatch = false;
  int64_t seed = 1;
  int64_t timeout_s = 60;
  std::vector<std::string> sets;
  bool json = false;
};

// A folder for candidates, removed at the end.
class CandidateFolder {
 public:
  absl::Status Create() {
    std::error_code error;
    path_ = std::filesystem::temp_directory_path(error) / "millrace_reduce_XXXXXX";
    if (error || mkdtemp(path_.data()) == nullptr) {
      path_.clear();
      return UsageError("cannot make a temporary folder for candidates");
    }
    return absl::OkStatus();
  }
  ~CandidateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string Candidate() const { return path_ + "/candidate.json"; }

 private:
  std::string path_;
};

// "{}" in the command stands for the candidate's path; it comes last where there is none.
std::string ShellCommand(const std::string& test) {
  std::string command;
  size_t from = 0;
  for (size_t at = test.find("{}"); at != test.npos; at = test.find("{}", from)) {
    StrAppend(&command, test.substr(from, at - from), "\"$1\"");
    from = at + 2;
  }
  return from == 0 ? StrCat(test, " \"$1\"") : StrCat(command, test.substr(from));
}

[[noreturn]] void BecomeShell(const std::string& command, const std::string& candidate) {
  setpgid(0, 0);  // ended as a whole when time is up
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);  // stdout is for our results
  execl("/bin/sh", "sh", "-c", command.c_str(), "sh", candidate.c_str(), nullptr);
  _exit(127);
}

// Whether the command exits with 0 in time.
absl::StatusOr<bool> RunTest(const std::string& command, const std::string& candidate,
                             int64_t timeout_s) {
  const pid_t pid = fork();
  if (pid < 0) return UsageError("cannot start a process for --test");
  if (pid == 0) BecomeShell(command, candidate);
  setpgid(pid, pid);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  auto pause = std::chrono::microseconds(200);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const bool interrupted = InterruptedExitCode() != 0;
    if (interrupted || std::chrono::steady_clock::now() > deadline) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      if (interrupted) return absl::CancelledError("interrupted");
      return false;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::Status CheckRequest(const ReduceOptions& options) {
  if (options.mismatch == !options.test.empty()) {
    return UsageError("say what the fault is: --test COMMAND, or --mismatch");
  }
  return Annotate(CheckCanWrite(options.output), "--output");
}

void PrintReduction(const ReduceOptions& options, const Graph& before, const Graph& after,
                    const ReduceCounts& counts) {
  const auto nodes = [](const Graph& g) { return static_cast<int64_t>(g.nodes.size()); };
  if (options.json) {
    Json document = JsonHeader("millrace-reduce");
    document["file"] = options.file;
    document["output"] = options.output;
    document["nodes_before"] = nodes(before);
    document["nodes"] = nodes(after);
    document["tried"] = counts.tried;
    PrintJson(document);
    return;
  }
  Print(StrCat(options.output, ": ", FormatPlural(nodes(after), "node"), " of ", nodes(before),
               ", after ", FormatPlural(counts.tried, "candidate"), "\n"));
}

absl::Status Reduce(const ReduceOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckRequest(options));
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph, LoadInferredGraph(options.file, options.sets));
  CandidateFolder folder;
  MILLRACE_RETURN_IF_ERROR(folder.Create());
  const std::string command = ShellCommand(options.test);
  const InterruptDeferral deferral;
  const Interesting interesting = [&](const Graph& candidate) -> absl::StatusOr<bool> {
    if (InterruptedExitCode() != 0) return absl::CancelledError("interrupted");
    if (options.mismatch) {
      return !FindMismatch(candidate, {}, static_cast<uint64_t>(options.seed)).empty();
    }
    MILLRACE_RETURN_IF_ERROR(SaveGraph(candidate, folder.Candidate()));
    return RunTest(command, folder.Candidate(), options.timeout_s);
  };
  ReduceCounts counts;
  MILLRACE_ASSIGN_OR_RETURN(const Graph reduced, ReduceGraph(graph, interesting, &counts));
  MILLRACE_RETURN_IF_ERROR(SaveGraph(reduced, options.output));
  PrintReduction(options, graph, reduced, counts);
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, ReduceOptions& options) {
  list.RequiredText("file", "FILE", options.file, "Graph or ONNX model");
  list.RequiredText("-o,--output", "FILE", options.output, "Write the reduced graph here");
  list.Text("--test", "COMMAND", options.test,
            "Shell command: exits with 0 while a candidate shows the fault");
  list.Flag("--mismatch", options.mismatch,
            "The fault: the plan for cpu:0 and the reference disagree, or one fails");
  list.AtMostOne({"--test", "--mismatch"});
  list.Count("--seed", options.seed, int64_t{0}, INT64_MAX, "Of inputs for --mismatch [1]");
  list.Count("--timeout", options.timeout_s, int64_t{1}, kMaxSeconds,
             "Seconds after which --test is ended: not interesting [60]");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graph");
  list.Flag("--json", options.json, "Print what came of it as JSON");
  list.Footer(
      "COMMAND gets the candidate's path in place of {}, or as its last argument:\n"
      "  millrace reduce big.json -o small.json --test '! millrace run {} --input \"*=rand:1\"'\n"
      "  millrace reduce big.json -o small.json --test ./still-fails.sh");
}

}  // namespace

void AddReduceCommand(CommandLine& line) {
  AddCommand<ReduceOptions>(line, "reduce", "Find the smallest graph that still shows a fault",
                            Reduce, DeclareOptions);
}

}  // namespace millrace
