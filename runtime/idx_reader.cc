#include "runtime/idx_reader.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "graph/files.h"
#include "graph/strings.h"
#include "runtime/gzip_status.h"

namespace millrace {
namespace {

constexpr int64_t kMostGrowthOfDeflate = 1032;
constexpr int64_t kReadAtOnce = int64_t{1} << 24;

std::optional<DType> IdxDType(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kI8;
    case 0x0b:
      return DType::kI16;
    case 0x0c:
      return DType::kI32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

// As many bytes as there are, `size` at most.
absl::StatusOr<int64_t> ReadBytes(gzFile file, const std::string& path, uint8_t* to, int64_t size) {
  int64_t done = 0;
  while (done < size) {
    const int n =
        gzread(file, to + done, static_cast<unsigned>(std::min(size - done, kReadAtOnce)));
    if (n <= 0) break;
    done += n;
  }
  if (done < size) MILLRACE_RETURN_IF_ERROR(GzipStatus(file, path));
  return done;
}

absl::StatusOr<TensorType> ReadIdxHeader(gzFile file, const std::string& path) {
  uint8_t magic[4];
  MILLRACE_ASSIGN_OR_RETURN(const int64_t found, ReadBytes(file, path, magic, 4));
  if (found != 4 || magic[0] != 0 || magic[1] != 0) {
    return BinaryFileError(path, 0, "not an IDX file", "two zero bytes, a type and a rank");
  }
  const std::optional<DType> dtype = IdxDType(magic[2]);
  if (!dtype.has_value()) {
    return BinaryFileError(path, 2, "unknown type", "8, 9, 11, 12, 13 or 14", StrCat(+magic[2]));
  }
  if (magic[3] > kMaxRank) {
    return BinaryFileError(path, 3, "too many dims", StrCat("at most ", kMaxRank),
                           StrCat(+magic[3]));
  }
  TensorType type{*dtype, {}};
  for (int d = 0; d < magic[3]; ++d) {
    uint8_t dim[4];
    MILLRACE_ASSIGN_OR_RETURN(const int64_t read, ReadBytes(file, path, dim, 4));
    if (read != 4) {
      return BinaryFileError(path, 4 + 4 * d, "the file ends in its header");
    }
    type.shape.push_back(int64_t{dim[0]} << 24 | dim[1] << 16 | dim[2] << 8 | dim[3]);
  }
  return type;
}

}  // namespace

absl::StatusOr<Tensor> ReadIdx(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  struct stat info = {};
  const int64_t file_bytes = fstat(fd, &info) == 0 ? info.st_size : 0;
  struct CloseGz {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  const std::unique_ptr<gzFile_s, CloseGz> file(gzdopen(fd, "rb"));
  if (file == nullptr) {
    close(fd);
    return OutOfMemoryError(StrCat("no memory to read '", path, "'"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const TensorType type, ReadIdxHeader(file.get(), path));
  const int64_t data_at = 4 + 4 * type.shape.rank();
  const std::optional<int64_t> size = CheckedByteSize(type);
  if (!size.has_value() || *size / kMostGrowthOfDeflate > file_bytes) {
    return BinaryFileError(path, 4, "the file cannot hold as much as its header says", "",
                           ToString(type));
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  auto* bytes = reinterpret_cast<uint8_t*>(tensor.mutable_bytes());
  MILLRACE_ASSIGN_OR_RETURN(const int64_t found, ReadBytes(file.get(), path, bytes, *size));
  uint8_t byte = 0;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t more, ReadBytes(file.get(), path, &byte, 1));
  if (found != *size || more != 0) {
    return BinaryFileError(path, data_at, "the data do not have the size of the array",
                           StrCat(*size, " bytes for ", ToString(type)),
                           found != *size ? StrCat(found) : "more");
  }
  const int64_t element = SizeOf(type.dtype);
  for (int64_t i = 0; element > 1 && i < *size; i += element) {
    std::reverse(bytes + i, bytes + i + element);
  }
  return tensor;
}

}  // namespace millrace
