// How training went, a JSON line an epoch.
#ifndef MILLRACE_TOOLS_METRICS_FILE_H_
#define MILLRACE_TOOLS_METRICS_FILE_H_

#include <cstdint>
#include <string>

#include "graph/status.h"
#include "tools/output.h"
#include "tools/trainer.h"

namespace millrace {

Json ToJson(const EpochReport& report);

class MetricsFile {
 public:
  // Lines of steps up to `step` stay, what training goes on from; others go. UsageError when the
  // file cannot be written, BadInputError when it has other lines than ours.
  static absl::StatusOr<MetricsFile> Open(const std::string& path, int64_t step);
  absl::Status Add(const EpochReport& report);

 private:
  MetricsFile(std::string path, std::string text)
      : path_(std::move(path)), text_(std::move(text)) {}

  std::string path_, text_;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_METRICS_FILE_H_
