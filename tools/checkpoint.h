// Checkpoints: what training needs to go on as if it had never stopped. A checkpoint is two files
// in a folder, `step-N.safetensors` with the params and `step-N.json`, which names it, with its
// hash, and is written after it. Both are written beside their places, synced and renamed, and the
// folder is synced between: at any moment, also that of a power cut, the newest JSON file there is
// stands for a whole checkpoint. The two newest are kept.
#ifndef MILLRACE_TOOLS_CHECKPOINT_H_
#define MILLRACE_TOOLS_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

struct Checkpoint {
  int64_t step = 0;              // steps done
  std::string fingerprint = {};  // of the run it belongs to: graph, data, options
  double loss_sum = 0;           // of the epoch's steps so far
  int64_t loss_steps = 0;        // and how many these are
  std::map<std::string, Tensor> params = {};
};

// As bytes, for ranks of one job.
std::string EncodeCheckpoint(const Checkpoint& checkpoint);
absl::StatusOr<Checkpoint> DecodeCheckpoint(std::string_view bytes);

class CheckpointFolder {
 public:
  // Makes the folder, if need be, and locks it. UsageError when that cannot be done, nothing can be
  // written there, or another process holds it.
  static absl::StatusOr<CheckpointFolder> Open(const std::string& path);
  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder& operator=(CheckpointFolder&&) = delete;
  ~CheckpointFolder();

  // UsageError when it cannot be written; the checkpoints before are still there then.
  absl::Status Save(const Checkpoint& checkpoint) const;

  // The newest that is whole; nullopt: there is none. `spoiled` gets a line about each newer one
  // that is not (a disk's fault: writing leaves none).
  absl::StatusOr<std::optional<Checkpoint>> LoadNewest(std::vector<std::string>& spoiled) const;

  const std::string& path() const { return path_; }

 private:
  CheckpointFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::vector<int64_t> Steps() const;  // of checkpoints, newest first
  void RemoveOld() const;

  std::string path_;
  int lock_ = -1;  // descriptor
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_CHECKPOINT_H_
