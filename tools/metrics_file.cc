#include "tools/metrics_file.h"

#include <unistd.h>

#include "absl/strings/str_split.h"
#include "graph/files.h"
#include "graph/json_document.h"
#include "graph/strings.h"

namespace millrace {

Json ToJson(const EpochReport& report) {
  Json json;
  json["epoch"] = report.epoch;
  json["step"] = report.step;
  json["loss"] = report.loss;
  json["learning_rate"] = report.learning_rate;
  json["samples_per_s"] = report.samples_per_s;
  if (report.evaluation.has_value()) {
    json["eval_loss"] = report.evaluation->loss;
    if (report.evaluation->hits.has_value()) json["eval_accuracy"] = *report.evaluation->hits;
  }
  return json;
}

absl::StatusOr<MetricsFile> MetricsFile::Open(const std::string& path, int64_t step) {
  std::string kept;
  if (step > 0 && access(path.c_str(), F_OK) == 0) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string before, ReadFile(path));
    for (const absl::string_view line : absl::StrSplit(AbslView(before), '\n', absl::SkipEmpty())) {
      MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                                JsonDocument::Parse(std::string(line), path));
      const JsonValue* of_step = document.root().kind == JsonKind::kObject
                                     ? document.Find(document.root(), "step")
                                     : nullptr;
      if (of_step == nullptr || of_step->kind != JsonKind::kInt) {
        return BadInputError(StrCat("'", path, "' has other lines than metrics of training: ",
                                    StdView(line.substr(0, 40))));
      }
      if (of_step->integer <= step) StrAppend(&kept, StdView(line), "\n");
    }
  }
  MetricsFile file(path, std::move(kept));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomically(file.path_, file.text_));
  return file;
}

// A line an epoch: rewriting the file is cheap, and it is whole whenever the process ends.
absl::Status MetricsFile::Add(const EpochReport& report) {
  StrAppend(&text_, ToJson(report).dump(), "\n");
  return WriteFileAtomically(path_, text_);
}

}  // namespace millrace
