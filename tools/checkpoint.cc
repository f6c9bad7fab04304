#include "tools/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/json_document.h"
#include "graph/safetensors.h"
#include "graph/strings.h"
#include "tools/output.h"

namespace millrace {
namespace {

constexpr std::string_view kFormat = "millrace-checkpoint";
constexpr size_t kKept = 2;
constexpr int kStepDigits = 12;

std::string StemOf(int64_t step) {
  std::string digits = StrCat(step);
  while (digits.size() < kStepDigits) digits.insert(0, 1, '0');
  return StrCat("step-", digits);
}

absl::Status FolderError(std::string_view what, const std::string& path, int error) {
  return UsageError(
      StrCat("cannot ", what, " checkpoint folder '", path, "': ", std::strerror(error)));
}

// A rename is on disk when its folder is.
absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FolderError("open", path, errno);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some file systems cannot sync folders, and say so.
  return error == 0 || error == EINVAL ? absl::OkStatus() : FolderError("sync", path, error);
}

std::vector<std::string> FileNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveFile(const std::string& folder, std::string_view name) {
  unlink(StrCat(folder, "/", name).c_str());  // what stays is only in the way
}

// The step of "step-N" and `suffix`.
std::optional<int64_t> StepOf(std::string_view name, std::string_view suffix) {
  int64_t step = 0;
  if (!name.starts_with("step-") || !name.ends_with(suffix)) return std::nullopt;
  const std::string_view digits = name.substr(5, name.size() - 5 - suffix.size());
  if (!absl::SimpleAtoi(AbslView(digits), &step) || step < 0) return std::nullopt;
  return StrCat(StemOf(step), suffix) == name ? std::optional(step) : std::nullopt;
}

// What the JSON file says.
struct CheckpointRecord {
  Checkpoint checkpoint;  // without params
  std::string sha256;
};

absl::StatusOr<CheckpointRecord> ReadRecord(const std::string& path, int64_t step) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  Diagnostics diagnostics;
  const JsonReader reader(document, diagnostics);
  CheckpointRecord record;
  if (reader.HasFormat(kFormat)) {
    const auto take = [&](std::string_view key, auto read) {
      if (const std::optional<JsonReader> member = reader.Required(key)) read(*member);
    };
    reader.OnlyKeys(
        {"format", "version", "step", "fingerprint", "loss_sum", "loss_steps", "sha256"});
    Checkpoint& c = record.checkpoint;
    take("step", [&](const JsonReader& r) { c.step = r.Int(step, step).value_or(0); });
    take("fingerprint", [&](const JsonReader& r) { c.fingerprint = r.String().value_or(""); });
    take("loss_sum", [&](const JsonReader& r) { c.loss_sum = r.Number().value_or(0); });
    take("loss_steps", [&](const JsonReader& r) { c.loss_steps = r.Int(0, step).value_or(0); });
    take("sha256", [&](const JsonReader& r) { record.sha256 = r.String().value_or(""); });
  }
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return record;
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder, int64_t step) {
  const std::string stem = StrCat(folder, "/", StemOf(step));
  MILLRACE_ASSIGN_OR_RETURN(CheckpointRecord record, ReadRecord(StrCat(stem, ".json"), step));
  const std::string path = StrCat(stem, ".safetensors");
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped, MapFile(path));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes.get()),
                               static_cast<size_t>(mapped.size));
  if (Sha256Hex(bytes) != record.sha256) {
    return BadInputError(StrCat("'", path, "' is not what was written: its hash differs"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(mapped, path));
  for (const std::string& name : file.names()) {
    MILLRACE_ASSIGN_OR_RETURN(record.checkpoint.params[name], file.Get(name));
  }
  return std::move(record.checkpoint);
}

}  // namespace

absl::StatusOr<CheckpointFolder> CheckpointFolder::Open(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FolderError("make", path, error.value());
  const std::string lock_path = StrCat(path, "/lock");
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock < 0) return FolderError("write to", path, errno);
  CheckpointFolder folder(path, lock);  // closes it
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return UsageError(StrCat("another process trains with checkpoint folder '", path, "'"));
  }
  // What a process that was killed had begun.
  for (const std::string& name : FileNames(path)) {
    if (absl::StartsWith(name, "step-") && absl::EndsWith(name, ".tmp")) RemoveFile(path, name);
  }
  return folder;
}

CheckpointFolder::CheckpointFolder(CheckpointFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) close(lock_);
}

std::vector<int64_t> CheckpointFolder::Steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : FileNames(path_)) {
    if (const std::optional<int64_t> step = StepOf(name, ".json")) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// A JSON file goes before what it names.
void CheckpointFolder::RemoveOld() const {
  const std::vector<int64_t> steps = Steps();
  for (size_t i = kKept; i < steps.size(); ++i) {
    RemoveFile(path_, StrCat(StemOf(steps[i]), ".json"));
  }
  const int64_t oldest = steps.empty() ? 0 : steps[std::min(kKept, steps.size()) - 1];
  for (const std::string& name : FileNames(path_)) {
    const std::optional<int64_t> step = StepOf(name, ".safetensors");
    if (step.has_value() && *step < oldest) RemoveFile(path_, name);
  }
}

absl::Status CheckpointFolder::Save(const Checkpoint& checkpoint) const {
  const std::string stem = StrCat(path_, "/", StemOf(checkpoint.step));
  const std::string weights = StrCat(stem, ".safetensors");
  // A JSON file of this step, if there is one, must not stand for other weights meanwhile.
  RemoveFile(path_, StrCat(StemOf(checkpoint.step), ".json"));
  MILLRACE_RETURN_IF_ERROR(
      WriteSafetensors(weights, {checkpoint.params.begin(), checkpoint.params.end()}));
  MILLRACE_RETURN_IF_ERROR(SyncFolder(path_));
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped, MapFile(weights));
  Json document = JsonHeader(kFormat);
  document["step"] = checkpoint.step;
  document["fingerprint"] = checkpoint.fingerprint;
  document["loss_sum"] = checkpoint.loss_sum;
  document["loss_steps"] = checkpoint.loss_steps;
  document["sha256"] = Sha256Hex(
      {reinterpret_cast<const char*>(mapped.bytes.get()), static_cast<size_t>(mapped.size)});
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomically(StrCat(stem, ".json"), StrCat(document.dump(2), "\n")));
  MILLRACE_RETURN_IF_ERROR(SyncFolder(path_));
  RemoveOld();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Checkpoint>> CheckpointFolder::LoadNewest(
    std::vector<std::string>& spoiled) const {
  for (const int64_t step : Steps()) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path_, step);
    if (checkpoint.ok()) return std::optional(*std::move(checkpoint));
    spoiled.emplace_back(checkpoint.status().message());
  }
  return std::optional<Checkpoint>();
}

}  // namespace millrace
