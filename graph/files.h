// Reading and writing whole files, with errors that name the file, and SHA-256.
#ifndef MILLRACE_GRAPH_FILES_H_
#define MILLRACE_GRAPH_FILES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "graph/status.h"

namespace millrace {

absl::StatusOr<std::string> ReadFile(const std::string& path);
// Atomic: a temporary file in the same folder, fsync, rename.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);

struct MappedFile {
  std::shared_ptr<const std::byte> bytes;  // null for an empty file
  int64_t size = 0;
};
// Read-only; unmapped when the last copy of `bytes` goes.
absl::StatusOr<MappedFile> MapFile(const std::string& path);

// `relative` under `directory`, refused (BadInputError) when it is absolute, has a ".." part, or
// resolves through links to a place outside.
absl::StatusOr<std::string> ResolveInside(const std::string& directory, std::string_view relative);

std::string Sha256Hex(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_FILES_H_
