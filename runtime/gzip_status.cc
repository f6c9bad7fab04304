#include "runtime/gzip_status.h"

#include <cerrno>
#include <cstring>

#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {

absl::Status GzipStatus(gzFile file, const std::string& path) {
  int code = Z_OK;
  gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return absl::OkStatus();
  if (code == Z_ERRNO) {
    return BadInputError(StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  return BinaryFileError(path, gzoffset(file),
                         code == Z_BUF_ERROR ? "the compressed data end too early"
                                             : "the compressed data are spoiled");
}

}  // namespace millrace
