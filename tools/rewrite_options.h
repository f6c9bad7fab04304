// Options about rewrites, for all commands that rewrite graphs.
#ifndef MILLRACE_TOOLS_REWRITE_OPTIONS_H_
#define MILLRACE_TOOLS_REWRITE_OPTIONS_H_

#include <string>
#include <vector>

#include "passes/pipeline.h"
#include "tools/command_line.h"
#include "tools/output.h"

namespace millrace {

struct RewriteOptions {
  int level = -1;                  // -1: the default one
  std::string passes, without;     // names, with commas between them
  std::string precision;           // of products: "f32", "bf16" or "f16"; empty: as the model says
  bool fast_math = false;          // arithmetic as real numbers have it
  std::vector<std::string> dumps;  // pass (or "all") and folder, in turn
  bool verify_each = false;

  // The name of an option that was given, or nullptr.
  const char* Given() const;
};
void AddRewriteOptions(OptionList& list, RewriteOptions& options);

// Sets `passes` and `running`. `input` is dumped too, when all is. UsageError: unknown passes, a
// folder that cannot be written to.
absl::Status ApplyRewriteOptions(const RewriteOptions& options, const Graph& input,
                                 CompileOptions& compile);

// UsageError when a precision was asked for and no node that could be computed in it is.
absl::Status CheckPrecision(const RewriteOptions& options,
                            const std::vector<RewriteRecord>& records);

// How often each rewrite rule applied and was refused; "" when there were none.
std::string RewriteSummary(const std::vector<RewriteRecord>& records);
Json RewritesToJson(const std::vector<RewriteRecord>& records);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_REWRITE_OPTIONS_H_
