#include "graph/files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "graph/assert.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {
namespace {

std::string ErrnoText(int error) { return std::generic_category().message(error); }

// Why `path` could not be read, as the error of whoever must act.
absl::Status ReadError(const std::string& path, int error) {
  const std::string message = StrCat("cannot read '", path, "': ", ErrnoText(error));
  return error == ENOENT || error == ENOTDIR ? MissingFileError(message) : BadInputError(message);
}

absl::Status WriteError(const std::string& path, int error) {
  return UsageError(StrCat("cannot write '", path, "': ", ErrnoText(error)));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Close() { return close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Returns 0 or errno.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

int WriteAllParts(int fd, std::span<const std::string_view> parts) {
  for (std::string_view part : parts) {
    if (const int error = WriteAll(fd, part)) return error;
  }
  return 0;
}

// A fresh file beside `path`; open() rather than mkstemp(), so that the umask decides its mode.
int CreateBeside(const std::string& path, std::string& temporary) {
  static std::atomic<uint64_t> counter = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = StrCat(path, ".", getpid(), "-", counter++, ".tmp");
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// A rename lasts once its folder is on disk. File systems that cannot sync folders are let be.
void SyncDirectoryOf(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  FileDescriptor fd(open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.ok()) (void)fsync(fd.get());
}

// How long a pipe may be without a writer: a second, in pauses.
constexpr int kPipePauses = 100;
constexpr useconds_t kPipePauseUs = 10'000;

// Opening a pipe that nobody uses must not hang.
int OpenWithoutWaiting(const std::string& path, int flags) {
  return open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
}

void MakeBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); }

// The path with links resolved, or "" with errno set.
std::string RealPath(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return "";
  std::string result = resolved;
  std::free(resolved);
  return result;
}

// `shown`: the path's name in messages.
absl::StatusOr<int> OpenRegular(const std::string& path, const std::string& shown) {
  const int fd = OpenWithoutWaiting(path, O_RDONLY);
  if (fd < 0) return ReadError(shown, errno);
  struct stat info;
  const int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  if (error != 0) return ReadError(shown, error);
  return BadInputError(StrCat("cannot read '", shown, "': ",
                              S_ISDIR(info.st_mode) ? ErrnoText(EISDIR) : "not a regular file"));
}

absl::StatusOr<MappedFile> Map(const std::string& path, const std::string& shown,
                               bool refuse_hard_links) {
  MILLRACE_ASSIGN_OR_RETURN(const int opened, OpenRegular(path, shown));
  FileDescriptor fd(opened);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ReadError(shown, errno);
  if (refuse_hard_links && info.st_nlink > 1) {
    return BadInputError(StrCat("'", shown, "' has ", info.st_nlink, " names (hard links), so it ",
                                "may be a file from outside its folder; a copy in its place will ",
                                "do"));
  }
  MappedFile file;
  file.size = info.st_size;
  if (file.size == 0) return file;
  const size_t length = static_cast<size_t>(file.size);
  void* address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return ReadError(shown, errno);
  file.bytes = std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(address),
      [length](const std::byte* bytes) { munmap(const_cast<std::byte*>(bytes), length); });
  return file;
}

}  // namespace

absl::StatusOr<int> OpenRegularFile(const std::string& path) { return OpenRegular(path, path); }

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  FileDescriptor fd(OpenWithoutWaiting(path, O_RDONLY));
  if (!fd.ok()) return ReadError(path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ReadError(path, errno);
  if (S_ISDIR(info.st_mode)) return ReadError(path, EISDIR);
  const bool endless = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd.get()) == 0);
  if (endless) return BadInputError(StrCat("cannot read '", path, "': a device, not a file"));
  const auto too_long = [&] {
    return BadInputError(StrCat("'", path, "' is longer than ", max_bytes, " bytes"));
  };
  if (info.st_size > max_bytes) return too_long();
  const bool pipe = S_ISFIFO(info.st_mode);
  if (!pipe) MakeBlocking(fd.get());

  std::string contents;
  constexpr size_t kChunk = size_t{1} << 16;
  size_t size = 0;
  int pauses = 0;
  contents.resize(static_cast<size_t>(info.st_size) + 1);  // one more, to see the end in one read
  while (true) {
    if (size == contents.size()) contents.resize(size + std::max(size / 2, kChunk));
    const ssize_t n = read(fd.get(), contents.data() + size, contents.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {  // the pipe has a writer, who is not ready
      MakeBlocking(fd.get());
      continue;
    }
    if (n < 0) return ReadError(path, errno);
    if (n == 0 && size == 0 && pipe && pauses++ < kPipePauses) {  // no writer yet
      usleep(kPipePauseUs);
      continue;
    }
    if (n == 0) break;
    size += static_cast<size_t>(n);
    if (static_cast<int64_t>(size) > max_bytes) return too_long();
  }
  if (pipe && size == 0) {
    return BadInputError(StrCat("cannot read '", path, "': a pipe that nobody writes to"));
  }
  contents.resize(size);
  return contents;
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  return WriteFileAtomically(path, std::span(&contents, 1));
}

absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> parts) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    FileDescriptor fd(OpenWithoutWaiting(path, O_WRONLY));
    if (!fd.ok() && errno == ENXIO) {
      return UsageError(StrCat("cannot write '", path, "': a pipe that nobody reads"));
    }
    if (!fd.ok()) return WriteError(path, errno);
    MakeBlocking(fd.get());
    const int error = WriteAllParts(fd.get(), parts);
    return error == 0 ? absl::OkStatus() : WriteError(path, error);
  }
  std::string temporary;
  FileDescriptor fd(CreateBeside(path, temporary));
  if (!fd.ok()) return WriteError(path, errno);
  int error = WriteAllParts(fd.get(), parts);
  if (error == 0 && fsync(fd.get()) != 0) error = errno;
  if (fd.Close() != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return WriteError(path, error);
  }
  SyncDirectoryOf(path);
  return absl::OkStatus();
}

absl::Status CheckCanWrite(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return WriteError(path, EISDIR);
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : WriteError(path, errno);
  }
  const std::string directory = DirectoryOf(path);
  const bool writable = access(directory.empty() ? "." : directory.c_str(), W_OK) == 0;
  return writable ? absl::OkStatus() : WriteError(path, errno);
}

absl::StatusOr<MappedFile> MapFile(const std::string& path) {
  return Map(path, path, /*refuse_hard_links=*/false);
}

absl::StatusOr<MappedFile> MapFileInside(const std::string& directory, std::string_view relative) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string path, ResolveInside(directory, relative));
  return Map(path, PathInside(directory, relative), /*refuse_hard_links=*/true);
}

absl::StatusOr<std::string> ResolveInside(const std::string& directory, std::string_view relative) {
  const auto refuse = [&](std::string_view why) {
    return BadInputError(StrCat("path '", absl::CHexEscape(AbslView(relative)), "' ", why));
  };
  if (relative.empty()) return refuse("is empty");
  if (relative.find('\0') != std::string_view::npos) return refuse("has a zero byte");
  if (relative.front() == '/') return refuse("is absolute; expected one relative to the folder");
  for (absl::string_view part : absl::StrSplit(AbslView(relative), '/')) {
    if (part == "..") return refuse("has a '..' part, which could leave the folder");
  }
  const std::string base = directory.empty() ? "." : directory;
  const std::string root = RealPath(base);
  if (root.empty()) return ReadError(base, errno);
  const std::string joined = StrCat(base, "/", relative);
  const std::string resolved = RealPath(joined);
  if (resolved.empty()) return ReadError(PathInside(directory, relative), errno);
  const std::string prefix = root == "/" ? root : root + "/";
  if (!std::string_view(resolved).starts_with(prefix)) {
    return refuse(StrCat("leads outside the folder '", base, "' through a link"));
  }
  return resolved;
}

absl::Status BinaryFileError(const std::string& path, int64_t offset, std::string message,
                             std::string expected, std::string found, std::string hint) {
  Diagnostics diagnostics;
  diagnostics.Add({.file = path,
                   .position = {},
                   .offset = offset,
                   .pointer = "",
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .hint = std::move(hint)});
  return diagnostics.ToStatus();
}

std::string PathInside(const std::string& directory, std::string_view relative) {
  const bool here = directory.empty() || directory == ".";
  return here ? std::string(relative) : StrCat(directory, "/", relative);
}

std::string DirectoryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return "";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string Sha256Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  MILLRACE_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) ==
                 1);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), length});
}

}  // namespace millrace
