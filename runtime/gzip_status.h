// How reading a file through zlib went.
#ifndef MILLRACE_RUNTIME_GZIP_STATUS_H_
#define MILLRACE_RUNTIME_GZIP_STATUS_H_

#include <zlib.h>

#include <string>

#include "graph/status.h"

namespace millrace {

// To be asked after a read that gave less than was wanted: OK at the end of the file, BadInputError
// where it cannot be read, ends within its compressed data, or these are spoiled.
absl::Status GzipStatus(gzFile file, const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_GZIP_STATUS_H_
