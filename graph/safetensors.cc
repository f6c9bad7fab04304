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
constexpr DTypeSpelling kFileDTypes[] = {
    {DType::kBool, "BOOL"}, {DType::kI8, "I8"},   {DType::kU8, "U8"},     {DType::kI16, "I16"},
    {DType::kU16, "U16"},   {DType::kI32, "I32"}, {DType::kU32, "U32"},   {DType::kI64, "I64"},
    {DType::kU64, "U64"},   {DType::kF16, "F16"}, {DType::kBF16, "BF16"}, {DType::kF32, "F32"},
    {DType::kF64, "F64"}};

std::string_view NameOf(DType dtype) {
  for (const DTypeSpelling& spelling : kFileDTypes) {
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
  JsonReader json;
  TensorType type;
  int64_t begin = 0, end = 0;

  std::string_view name() const { return json.key(); }
};

std::vector<std::string> Spellings() {
  std::vector<std::string> names;
  for (const DTypeSpelling& spelling : kFileDTypes) names.emplace_back(spelling.name);
  return names;
}

// Reads the JSON header; errors carry the byte offset in the file.
class HeaderReader {
 public:
  HeaderReader(const JsonReader& root, int64_t data_bytes) : root_(root), data_bytes_(data_bytes) {}

  std::vector<HeaderEntry> Read(std::map<std::string, std::string>& metadata) {
    std::vector<HeaderEntry> entries;
    root_.ForEachMember([&](std::string_view name, const JsonReader& member) {
      if (name == kMetadataKey) {
        ReadMetadata(member, metadata);
      } else if (std::optional<HeaderEntry> entry = ReadEntry(member)) {
        entries.push_back(*std::move(entry));
      }
    });
    return entries;
  }

  // Sorted by place, the entries must cover the data without gap or overlap. `data_begin`: in the
  // file.
  void CheckCoverage(std::vector<HeaderEntry> entries, int64_t data_begin) {
    std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    int64_t covered = 0;
    std::string before = "the data begin";
    for (const HeaderEntry& entry : entries) {
      if (entry.begin != covered) {
        entry.json.Error(entry.begin < covered ? "the data of two tensors overlap"
                                               : "there is a hole between the data of two tensors",
                         StrCat("data from byte ", covered, " on, where ", before),
                         StrCat("from byte ", entry.begin, " on"));
      }
      covered = std::max(covered, entry.end);
      before = StrCat("those of '", entry.name(), "' end");
    }
    if (covered < data_bytes_) {
      Diagnostic diagnostic;
      diagnostic.file = root_.document().file();
      diagnostic.offset = data_begin + covered;
      diagnostic.message = "bytes that belong to no tensor";
      diagnostic.expected = "the end of the file";
      diagnostic.found = StrCat(data_bytes_ - covered, " more");
      root_.diagnostics().Add(std::move(diagnostic));
    }
  }

 private:
  void ReadMetadata(const JsonReader& object, std::map<std::string, std::string>& metadata) {
    object.ForEachMember([&](std::string_view key, const JsonReader& member) {
      if (member.IsString()) {
        metadata.emplace(key, member.value().string());
      } else {
        member.Error("wrong kind of value", "a string", member.Describe());
      }
    });
  }

  std::optional<HeaderEntry> ReadEntry(const JsonReader& object) {
    static constexpr std::string_view kKeys[] = {"dtype", "shape", "data_offsets"};
    std::optional<JsonReader> members[3];
    if (!object.Members(kKeys, members, /*extensions=*/false)) return std::nullopt;
    bool ok = true;
    for (int key = 0; key < 3; ++key) {
      if (members[key].has_value()) continue;
      object.Error(StrCat("key \"", kKeys[key], "\" is missing"));
      ok = false;
    }
    if (!ok) return std::nullopt;
    HeaderEntry entry{.json = object, .type = {}};
    ok &= ReadDType(*members[0], entry.type);
    ok = ReadShape(*members[1], entry.type) && ok;
    if (!ok || !ReadOffsets(*members[2], entry)) return std::nullopt;
    return entry;
  }

  bool ReadDType(const JsonReader& reader, TensorType& type) {
    for (const DTypeSpelling& spelling : kFileDTypes) {
      if (!reader.IsString() || reader.value().string() != spelling.name) continue;
      type.dtype = spelling.dtype;
      return true;
    }
    if (reader.IsCountedOnly()) return false;
    const std::string hint =
        reader.IsString() ? DidYouMean(reader.value().string(), Spellings()) : "";
    reader.Error("unknown dtype", StrCat("one of ", absl::StrJoin(Spellings(), ", ")),
                 reader.Describe(), hint);
    return false;
  }

  bool ReadShape(const JsonReader& reader, TensorType& type) {
    if (reader.IsArray() && reader.value().size > kMaxRank) {
      reader.Error("too many dims", StrCat("at most ", kMaxRank), reader.Describe());
      return false;
    }
    bool ok = true;
    ok &= reader.ForEachElement([&](const JsonReader& element) {
      const std::optional<int64_t> dim = element.Int(0, kMaxBytes);
      ok &= dim.has_value();
      if (dim.has_value()) type.shape.push_back(*dim);
    });
    if (ok && !CheckedByteSize(type).has_value()) {
      reader.Error("the tensor is too large", StrCat("at most ", kMaxBytes, " bytes"),
                   ToString(type));
      return false;
    }
    return ok;
  }

  bool ReadOffsets(const JsonReader& reader, HeaderEntry& entry) {
    std::vector<int64_t> offsets;
    if (reader.IsArray() && reader.value().size == 2) {
      reader.ForEachElement([&](const JsonReader& element) {
        if (element.value().kind == JsonKind::kInt) offsets.push_back(element.value().integer);
      });
    }
    if (offsets.size() != 2) {
      reader.Error("wrong kind of value", "two integers, [begin, end]", reader.Text());
      return false;
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.begin < 0 || entry.end < entry.begin || entry.end > data_bytes_) {
      reader.Error("the data of this tensor are not in the file",
                   StrCat("0 <= begin <= end <= ", data_bytes_, ", the bytes after the header"),
                   StrCat("[", entry.begin, ", ", entry.end, "]"));
      return false;
    }
    if (entry.end - entry.begin != ByteSize(entry.type)) {
      reader.Error("the data do not have the size of the tensor",
                   StrCat(ByteSize(entry.type), " bytes for ", ToString(entry.type)),
                   StrCat(entry.end - entry.begin));
      return false;
    }
    return true;
  }

  const JsonReader root_;
  const int64_t data_bytes_;
};

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(MappedFile mapped, MapFile(path));
  return Open(std::move(mapped), path);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(MappedFile mapped, std::string path) {
  if (mapped.size < kLengthBytes) {
    return BinaryFileError(path, 0, "not a safetensors file: too short",
                           StrCat("at least ", kLengthBytes, " bytes"), StrCat(mapped.size));
  }
  const uint64_t length = LoadLittleEndian64(mapped.bytes.get());
  const int64_t most = std::min(kMaxHeaderBytes, mapped.size - kLengthBytes);
  if (length > static_cast<uint64_t>(most)) {
    return BinaryFileError(
        path, 0, "not a safetensors file: the length of its header is not possible",
        StrCat("at most ", most, " in a file of ", mapped.size, " bytes"), StrCat(length));
  }
  const int64_t header_bytes = static_cast<int64_t>(length);
  std::string header(reinterpret_cast<const char*>(mapped.bytes.get()) + kLengthBytes, length);
  MILLRACE_ASSIGN_OR_RETURN(
      const JsonDocument json,
      JsonDocument::Parse(
          std::move(header), path,
          {.max_depth = 4, .max_bytes = kMaxHeaderBytes, .offset_in_file = kLengthBytes}));

  const int64_t data_begin = kLengthBytes + header_bytes;
  SafetensorsFile file;
  file.mapping_ = std::move(mapped.bytes);
  Diagnostics diagnostics;
  HeaderReader reader(JsonReader(json, diagnostics), mapped.size - data_begin);
  const std::vector<HeaderEntry> entries = reader.Read(file.metadata_);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  reader.CheckCoverage(entries, data_begin);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  for (const HeaderEntry& entry : entries) {
    file.entries_[std::string(entry.name())] = {entry.type, data_begin + entry.begin};
  }
  file.path_ = std::move(path);
  return file;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::optional<TensorType> SafetensorsFile::TypeOf(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return found->second.type;
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
        return BinaryFileError(path_, entry.begin + static_cast<int64_t>(i),
                               StrCat("a bool of tensor '", name, "'"), "0 or 1",
                               StrCat(std::to_integer<int>(bytes[i])));
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
