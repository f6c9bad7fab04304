// A zip archive is read from its end: there lies a record that says where the directory begins, and
// the directory says where each file's header is and how long its data are. (The headers may not
// know: archives are also written to pipes.)
#include "runtime/npz_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/npy.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kEndMark("PK\5\6", 4), kEntryMark("PK\1\2", 4), kFileMark("PK\3\4", 4);
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kFileBytes = 30;
constexpr size_t kLongestComment = 65535;
constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
constexpr uint64_t kMostGrowth = 1032;  // of deflate

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  // The file called `name`, unpacked.
  absl::StatusOr<std::string> Read(std::string_view name) {
    MILLRACE_ASSIGN_OR_RETURN(size_t at, FindDirectory());
    std::vector<std::string> names;
    for (; Has(at, kEntryBytes) && MarkAt(at) == kEntryMark; at = AfterEntry(at)) {
      const size_t name_size = U16(at + 28);
      if (!Has(at + kEntryBytes, name_size)) return Error(at, "a name runs past the end");
      const std::string_view entry = bytes_.substr(at + kEntryBytes, name_size);
      if (entry == name) return Unpack(at);
      names.push_back(NameOfArray(entry));
    }
    const std::string hint = DidYouMean(NameOfArray(name), names);
    return BadInputError(StrCat("'", path_, "' has no array '", NameOfArray(name), "'",
                                hint.empty() ? "" : "; ", hint));
  }

 private:
  static std::string NameOfArray(std::string_view file) {
    if (file.ends_with(".npy")) file.remove_suffix(4);
    return std::string(file);
  }

  bool Has(size_t at, size_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  uint32_t Byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }
  uint16_t U16(size_t at) const { return static_cast<uint16_t>(Byte(at) | Byte(at + 1) << 8); }
  uint32_t U32(size_t at) const { return U16(at) | static_cast<uint32_t>(U16(at + 2)) << 16; }
  std::string_view MarkAt(size_t at) const { return bytes_.substr(at, 4); }
  size_t AfterEntry(size_t at) const {
    return at + kEntryBytes + U16(at + 28) + U16(at + 30) + U16(at + 32);
  }
  absl::Status Error(size_t at, std::string message) const {
    return BinaryFileError(path_, static_cast<int64_t>(at), std::move(message));
  }

  absl::StatusOr<size_t> FindDirectory() const {
    const size_t least = bytes_.size() - std::min(bytes_.size(), kEndBytes + kLongestComment);
    const size_t end = bytes_.rfind(kEndMark);
    if (end == std::string_view::npos || end < least || !Has(end, kEndBytes)) {
      return Error(0, "not a .npz archive");
    }
    const size_t directory = U32(end + 16);
    if (directory > end) return Error(end, "the archive is larger than 4 GiB, or cut");
    return directory;
  }

  absl::StatusOr<std::string> Unpack(size_t entry) const {
    const uint16_t method = U16(entry + 10);
    const size_t packed = U32(entry + 20), size = U32(entry + 24), file = U32(entry + 42);
    if (U16(entry + 8) & kEncrypted) return Error(entry, "the array is encrypted");
    if (method != kStored && method != kDeflated) {
      return Error(entry, StrCat("the array is packed by method ", method, ", not by deflate"));
    }
    if (!Has(file, kFileBytes) || MarkAt(file) != kFileMark) {
      return Error(entry, "the array's header is not where it should be");
    }
    const size_t data = file + kFileBytes + U16(file + 26) + U16(file + 28);
    if (!Has(data, packed)) return Error(entry, "the array's data run past the end");
    const bool possible =
        method == kStored ? size == packed : size <= (uint64_t{packed} + 1) * kMostGrowth;
    if (!possible) return Error(entry, "the array's size is not possible");
    std::string unpacked(size, '\0');
    if (method == kStored) {
      bytes_.copy(unpacked.data(), size, data);
    } else if (!Inflate(bytes_.substr(data, packed), unpacked)) {
      return Error(data, "the compressed data are spoiled");
    }
    const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(unpacked.data()), size);
    if (crc != U32(entry + 16)) return Error(data, "the data are spoiled: their checksum differs");
    return unpacked;
  }

  // False unless `packed` gives exactly as much as `to` holds.
  static bool Inflate(std::string_view packed, std::string& to) {
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(to.data());
    stream.avail_out = static_cast<uInt>(to.size());
    const int code = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return code == Z_STREAM_END && stream.avail_out == 0;
  }

  const std::string_view bytes_;
  const std::string& path_;
};

}  // namespace

absl::StatusOr<Tensor> ReadNpz(const std::string& path, std::string_view name) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped, MapFile(path));
  ZipReader reader(
      {reinterpret_cast<const char*>(mapped.bytes.get()), static_cast<size_t>(mapped.size)}, path);
  MILLRACE_ASSIGN_OR_RETURN(const std::string npy, reader.Read(StrCat(name, ".npy")));
  return ParseNpy(npy, StrCat(path, ":", name));
}

}  // namespace millrace
