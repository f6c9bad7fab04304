#include "graph/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeSpelling {
  DType dtype;
  std::string_view name;
};
constexpr DTypeSpelling kDTypes[] = {
    {DType::kBool, "BOOL"}, {DType::kI8, "I8"},   {DType::kU8, "U8"},     {DType::kI16, "I16"},
    {DType::kU16, "U16"},   {DType::kI32, "I32"}, {DType::kU32, "U32"},   {DType::kI64, "I64"},
    {DType::kU64, "U64"},   {DType::kF16, "F16"}, {DType::kBF16, "BF16"}, {DType::kF32, "F32"},
    {DType::kF64, "F64"}};

std::string_view NameOf(DType dtype) {
  for (const DTypeSpelling& spelling : kDTypes) {
    if (spelling.dtype == dtype) return spelling.name;
  }
  return "";
}

uint64_t LoadLittleEndian64(const std::byte* bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

// One tensor of the header. Offsets count from the start of the data.
struct HeaderEntry {
  std::string name;
  TensorType type;
  int64_t begin = 0, end = 0;
  uint32_t header_offset = 0;  // of its JSON, for messages
};

// Reads the JSON header; errors carry the byte offset in the file.
class HeaderReader {
 public:
  HeaderReader(const JsonDocument& json, int64_t data_bytes)
      : json_(json), data_bytes_(data_bytes) {}

  std::vector<HeaderEntry> Read(std::map<std::string, std::string>& metadata) {
    std::vector<HeaderEntry> entries;
    if (json_.root().kind != JsonKind::kObject) {
      Error(json_.root(), "the header is not a JSON object");
      return entries;
    }
    for (const JsonValue* m = json_.FirstChild(json_.root()); m != nullptr; m = json_.Next(*m)) {
      if (m->key() == kMetadataKey) {
        ReadMetadata(*m, metadata);
      } else if (auto entry = ReadEntry(*m)) {
        entries.push_back(*std::move(entry));
      }
    }
    return entries;
  }

  // Sorted by place, the entries must cover the data without gap or overlap.
  void CheckCoverage(std::vector<HeaderEntry> entries) {
    std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    int64_t covered = 0;
    for (const HeaderEntry& entry : entries) {
      if (entry.begin != covered) {
        Error(entry.header_offset,
              StrCat("tensor '", entry.name, "' begins at byte ", entry.begin, " of the data, ",
                     entry.begin < covered ? "inside" : "with a hole after",
                     " what comes before it, which ends at ", covered));
      }
      covered = std::max(covered, entry.end);
    }
    if (covered < data_bytes_) {
      Error(0,
            StrCat("the tensors end at byte ", covered, " of the data, which has ", data_bytes_));
    }
  }

  absl::Status ToStatus() const { return diagnostics_.ToStatus(); }

 private:
  void Error(uint32_t header_offset, std::string message) {
    Diagnostic diagnostic;
    diagnostic.file = json_.file();
    diagnostic.offset = kLengthBytes + header_offset;
    diagnostic.message = std::move(message);
    diagnostics_.Add(std::move(diagnostic));
  }
  void Error(const JsonValue& value, std::string message) {
    Error(value.offset, std::move(message));
  }

  void ReadMetadata(const JsonValue& object, std::map<std::string, std::string>& metadata) {
    if (object.kind != JsonKind::kObject) Error(object, "the metadata are not a JSON object");
    for (const JsonValue* m = json_.FirstChild(object); m != nullptr; m = json_.Next(*m)) {
      if (m->kind == JsonKind::kString) {
        metadata.emplace(m->key(), m->string());
      } else {
        Error(*m, StrCat("metadata '", m->key(), "' are not a string"));
      }
    }
  }

  std::optional<HeaderEntry> ReadEntry(const JsonValue& object) {
    HeaderEntry entry;
    entry.name = std::string(object.key());
    entry.header_offset = object.key_offset;
    const JsonValue* dtype = json_.Find(object, "dtype");
    const JsonValue* shape = json_.Find(object, "shape");
    const JsonValue* offsets = json_.Find(object, "data_offsets");
    if (dtype == nullptr || shape == nullptr || offsets == nullptr || object.size != 3) {
      Error(object, StrCat("tensor '", entry.name,
                           "': expected an object of dtype, shape and data_offsets"));
      return std::nullopt;
    }
    if (!ReadDType(*dtype, entry) || !ReadShape(*shape, entry) || !ReadOffsets(*offsets, entry)) {
      return std::nullopt;
    }
    return entry;
  }

  bool ReadDType(const JsonValue& value, HeaderEntry& entry) {
    std::string known;
    for (const DTypeSpelling& spelling : kDTypes) {
      if (value.kind == JsonKind::kString && value.string() == spelling.name) {
        entry.type.dtype = spelling.dtype;
        return true;
      }
      StrAppend(&known, known.empty() ? "" : ", ", spelling.name);
    }
    Error(value, StrCat("tensor '", entry.name, "': dtype ", json_.RawText(value).substr(0, 40),
                        " is not one of ", known));
    return false;
  }

  bool ReadShape(const JsonValue& value, HeaderEntry& entry) {
    bool ok = value.kind == JsonKind::kArray && value.size <= kMaxRank;
    const JsonValue* dim = ok ? json_.FirstChild(value) : nullptr;
    for (; dim != nullptr; dim = json_.Next(*dim)) {
      ok &= dim->kind == JsonKind::kInt && dim->integer >= 0;
      if (ok) entry.type.shape.push_back(dim->integer);
    }
    ok = ok && CheckedByteSize(entry.type).has_value();
    if (!ok) {
      Error(value, StrCat("tensor '", entry.name, "': shape ", json_.RawText(value).substr(0, 80),
                          " is not one of at most ", kMaxRank, " dims and ", kMaxBytes, " bytes"));
    }
    return ok;
  }

  bool ReadOffsets(const JsonValue& value, HeaderEntry& entry) {
    const JsonValue* begin = value.size == 2 ? json_.FirstChild(value) : nullptr;
    const JsonValue* end = begin != nullptr ? json_.Next(*begin) : nullptr;
    if (end == nullptr || begin->kind != JsonKind::kInt || end->kind != JsonKind::kInt) {
      Error(value, StrCat("tensor '", entry.name, "': data_offsets are not two integers"));
      return false;
    }
    entry.begin = begin->integer;
    entry.end = end->integer;
    if (entry.begin < 0 || entry.end < entry.begin || entry.end > data_bytes_) {
      Error(value, StrCat("tensor '", entry.name, "': data_offsets [", entry.begin, ", ", entry.end,
                          "] pass the data, which have ", data_bytes_, " bytes"));
      return false;
    }
    if (entry.end - entry.begin != ByteSize(entry.type)) {
      Error(value, StrCat("tensor '", entry.name, "': data_offsets hold ", entry.end - entry.begin,
                          " bytes, but ", ToString(entry.type), " has ", ByteSize(entry.type)));
      return false;
    }
    return true;
  }

  const JsonDocument& json_;
  const int64_t data_bytes_;
  Diagnostics diagnostics_;
};

absl::Status FileError(const std::string& path, int64_t offset, std::string_view message) {
  return BadInputError(StrCat(path, ":byte ", offset, ": ", message));
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped, MapFile(path));
  if (mapped.size < kLengthBytes) {
    return FileError(path, 0, StrCat("not a safetensors file: it has ", mapped.size, " bytes"));
  }
  const uint64_t length = LoadLittleEndian64(mapped.bytes.get());
  if (length > static_cast<uint64_t>(std::min(kMaxHeaderBytes, mapped.size - kLengthBytes))) {
    return FileError(path, 0,
                     StrCat("the header is said to have ", length, " bytes; the file has ",
                            mapped.size, ", and ", kMaxHeaderBytes, " are the limit"));
  }
  const int64_t header_bytes = static_cast<int64_t>(length);
  std::string header(reinterpret_cast<const char*>(mapped.bytes.get()) + kLengthBytes, length);
  absl::StatusOr<JsonDocument> json =
      JsonDocument::Parse(std::move(header), path, {.max_depth = 4, .max_bytes = kMaxHeaderBytes});
  if (!json.ok()) return Annotate(json.status(), "the header is not JSON");

  const int64_t data_begin = kLengthBytes + header_bytes;
  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = mapped.bytes;
  HeaderReader reader(*json, mapped.size - data_begin);
  std::vector<HeaderEntry> entries = reader.Read(file.metadata_);
  MILLRACE_RETURN_IF_ERROR(reader.ToStatus());
  reader.CheckCoverage(entries);
  MILLRACE_RETURN_IF_ERROR(reader.ToStatus());
  for (HeaderEntry& entry : entries) {
    file.entries_[std::move(entry.name)] = {entry.type, data_begin + entry.begin};
  }
  return file;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

absl::StatusOr<Tensor> SafetensorsFile::Get(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const std::string hint = DidYouMean(name, names());
    return BadInputError(
        StrCat("'", path_, "' has no tensor '", name, "'", hint.empty() ? "" : "; ", hint));
  }
  const Entry& entry = found->second;
  const size_t size = static_cast<size_t>(ByteSize(entry.type));
  const std::byte* bytes = mapping_.get() + entry.begin;
  if (entry.type.dtype == DType::kBool) {
    for (size_t i = 0; i < size; ++i) {
      if (bytes[i] > std::byte{1}) {
        return FileError(path_, entry.begin + static_cast<int64_t>(i),
                         StrCat("a bool of tensor '", name, "' is neither 0 nor 1"));
      }
    }
  }
  const bool aligned =
      reinterpret_cast<uintptr_t>(bytes) % static_cast<size_t>(SizeOf(entry.type.dtype)) == 0;
  if (aligned && size > 0) {
    return Tensor::Wrap(entry.type, std::shared_ptr<const std::byte>(mapping_, bytes));
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry.type));
  std::memcpy(tensor.mutable_bytes(), bytes, size);
  return tensor;
}

absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<size_t> by_size(tensors.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    return SizeOf(tensors[a].second.dtype()) > SizeOf(tensors[b].second.dtype());
  });
  std::vector<int64_t> begins(tensors.size());
  int64_t end = 0;
  for (const size_t i : by_size) {
    begins[i] = end;
    end += tensors[i].second.size_bytes();
  }

  std::string header = "{";
  if (!metadata.empty()) {
    StrAppend(&header, JsonString(kMetadataKey), ":{",
              absl::StrJoin(metadata, ",",
                            [](std::string* out, const auto& item) {
                              StrAppend(out, JsonString(item.first), ":", JsonString(item.second));
                            }),
              "}");
  }
  absl::flat_hash_set<std::string> names{std::string(kMetadataKey)};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    if (!names.insert(name).second) {
      return UsageError(StrCat("cannot write '", path, "': tensor name '", name,
                               name == kMetadataKey ? "' is reserved" : "' is used twice"));
    }
    StrAppend(&header, header.size() > 1 ? "," : "", JsonString(name), ":{\"dtype\":\"",
              NameOf(tensor.dtype()), "\",\"shape\":[", absl::StrJoin(tensor.shape(), ","),
              "],\"data_offsets\":[", begins[i], ",", begins[i] + tensor.size_bytes(), "]}");
  }
  header += '}';
  while (header.size() % kLengthBytes != 0) header += ' ';  // keeps the data aligned

  std::string length;
  for (int i = 0; i < kLengthBytes; ++i) {
    length += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  }
  std::vector<std::string_view> parts = {length, header};
  for (const size_t i : by_size) {
    parts.emplace_back(reinterpret_cast<const char*>(tensors[i].second.bytes()),
                       static_cast<size_t>(tensors[i].second.size_bytes()));
  }
  return WriteFileAtomically(path, parts);
}

}  // namespace millrace
