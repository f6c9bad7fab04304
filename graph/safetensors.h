// The safetensors format: 8-byte header length, JSON header, raw little-endian data. Files are
// mapped, not read: a tensor's bytes are loaded when touched. (A file that someone else shortens
// while it is mapped kills the process, as with every mapping; ours are replaced, never rewritten.)
#ifndef MILLRACE_GRAPH_SAFETENSORS_H_
#define MILLRACE_GRAPH_SAFETENSORS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/files.h"
#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

class SafetensorsFile {
 public:
  // BadInputError (with byte offsets) for anything malformed: header longer than the file or than
  // 100 MB, unknown dtype, offsets that overlap, leave holes or pass the end, sizes that disagree.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // The same for a file that is mapped already; `path` is for messages.
  static absl::StatusOr<SafetensorsFile> Open(MappedFile mapped, std::string path);

  std::vector<std::string> names() const;  // sorted
  std::optional<TensorType> TypeOf(std::string_view name) const;  // nullopt when absent
  // Shares the mapping, or copies where the file puts elements at odd places. BadInputError with
  // the nearest name when absent, and where a bool is neither 0 nor 1.
  absl::StatusOr<Tensor> Get(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  struct Entry {
    TensorType type;
    int64_t begin = 0;  // absolute file offset
  };
  std::string path_;
  std::shared_ptr<const std::byte> mapping_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

// Lists tensors in the order given; their data lie sorted by element size, largest first, so that
// each is aligned without holes, which the format forbids. UsageError for a name used twice.
// Atomic: a temporary file in the same folder, fsync, rename.
absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace millrace

#endif  // MILLRACE_GRAPH_SAFETENSORS_H_
