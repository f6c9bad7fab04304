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

// MissingFileError when it is not there, BadInputError when it is a folder, a device (but a
// terminal), unreadable or longer than `max_bytes`. A pipe is read to its end; one that nobody has
// opened for writing within a second is refused.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = INT64_MAX);

// Atomic: a temporary file in the same folder, fsync, rename. UsageError when that cannot be done.
// A path that is a device or pipe (/dev/stdout) is written in place; a pipe that nobody reads is an
// error. The second form writes the parts one after another, so that large data need not be joined
// in memory.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);
absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> parts);

// UsageError when writing `path` could not succeed: its folder is missing or may not be written to,
// or it is a folder itself. Asked before long work, whose results would be lost.
absl::Status CheckCanWrite(const std::string& path);

// A descriptor for reading, the caller's to close; regular files only, other errors as ReadFile's.
absl::StatusOr<int> OpenRegularFile(const std::string& path);

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

// "model/fc.safetensors": `relative` as seen from where `directory` is ("" and ".": from within).
std::string PathInside(const std::string& directory, std::string_view relative);

// The file that ResolveInside finds. Hard links are refused as well: where else such a file has a
// name cannot be seen, so it may be one from outside.
absl::StatusOr<MappedFile> MapFileInside(const std::string& directory, std::string_view relative);

// BadInputError about the byte at `offset` of a binary file, worded as diagnostics are.
absl::Status BinaryFileError(const std::string& path, int64_t offset, std::string message,
                             std::string expected = "", std::string found = "",
                             std::string hint = "");

// "a/b/model.json" -> "a/b"; "" when there is no folder part.
std::string DirectoryOf(std::string_view path);

std::string Sha256Hex(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_FILES_H_
