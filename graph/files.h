// Reading and writing whole files, with errors that name the file, and SHA-256.
#ifndef MILLRACE_GRAPH_FILES_H_
#define MILLRACE_GRAPH_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/status.h"

namespace millrace {

// MissingFileError when it is not there, BadInputError when it is a folder, unreadable or longer
// than `max_bytes`. Pipes and devices are read to their end.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = INT64_MAX);

// Atomic: a temporary file in the same folder, fsync, rename. UsageError when that cannot be done.
// A path that is a device or pipe (/dev/stdout) is written in place. The second form writes the
// parts one after another, so that large data need not be joined in memory.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);
absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> parts);

struct MappedFile {
  std::shared_ptr<const std::byte> bytes;  // null for an empty file
  int64_t size = 0;
};
// Read-only; unmapped when the last copy of `bytes` goes. Regular files only.
absl::StatusOr<MappedFile> MapFile(const std::string& path);

// `relative` under `directory` ("" is the current one), with links resolved; refused
// (BadInputError) when it is absolute, has a ".." part, or resolves through links to a place
// outside. MissingFileError when nothing is there.
absl::StatusOr<std::string> ResolveInside(const std::string& directory, std::string_view relative);

// "a/b/model.json" -> "a/b"; "" when there is no folder part.
std::string DirectoryOf(std::string_view path);

std::string Sha256Hex(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_FILES_H_
