// Where the data of params and constants come from, in JSON: {"file": "w", "tensor": "fc.weight"},
// {"inline": [1.0, 2.0]}, {"base64": "AACAPw=="}, {"splat": 1e-05},
// {"init": "normal", "seed": 7, "std": 0.02}.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "graph/graph_json_parts.h"
#include "graph/json_text.h"
#include "graph/strings.h"
#include "graph/weights.h"

namespace millrace {
namespace {

// --- Elements -----------------------------------------------------------------------------------

template <typename T>
void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

template <typename T>
T LoadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
bool ReadInteger(const JsonReader& reader, std::byte* to) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    const std::optional<uint64_t> value = reader.Uint64();
    if (value.has_value()) Store<T>(*value, to);
    return value.has_value();
  } else {
    const std::optional<int64_t> value =
        reader.Int(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    if (value.has_value()) Store<T>(static_cast<T>(*value), to);
    return value.has_value();
  }
}

// The float nearest to the number as it was written. Going through double could round twice.
float NearestFloat(const JsonReader& reader, double number) {
  const std::string_view text = reader.document().RawText(reader.value());
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? value : static_cast<float>(number);  // else: under- or overflow, "inf", "nan"
}

template <typename T>
bool ReadFloat(const JsonReader& reader, DType dtype, std::byte* to) {
  const std::optional<double> number = reader.Number();
  if (!number.has_value()) return false;
  T value;
  if constexpr (std::is_same_v<T, double>) {
    value = *number;
  } else {
    value = static_cast<T>(NearestFloat(reader, *number));
  }
  if (std::isfinite(*number) && !std::isfinite(static_cast<double>(value))) {
    reader.Error(StrCat("too large for ", DTypeName(dtype)), "", reader.Describe());
    return false;
  }
  Store(value, to);
  return true;
}

bool ReadElement(const JsonReader& reader, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kBool: {
      const std::optional<bool> value = reader.Bool();
      if (value.has_value()) Store<uint8_t>(*value, to);
      return value.has_value();
    }
    case DType::kI8:
      return ReadInteger<int8_t>(reader, to);
    case DType::kU8:
      return ReadInteger<uint8_t>(reader, to);
    case DType::kI16:
      return ReadInteger<int16_t>(reader, to);
    case DType::kU16:
      return ReadInteger<uint16_t>(reader, to);
    case DType::kI32:
      return ReadInteger<int32_t>(reader, to);
    case DType::kU32:
      return ReadInteger<uint32_t>(reader, to);
    case DType::kI64:
      return ReadInteger<int64_t>(reader, to);
    case DType::kU64:
      return ReadInteger<uint64_t>(reader, to);
    case DType::kF16:
      return ReadFloat<Half>(reader, dtype, to);
    case DType::kBF16:
      return ReadFloat<BFloat16>(reader, dtype, to);
    case DType::kF32:
      return ReadFloat<float>(reader, dtype, to);
    case DType::kF64:
      return ReadFloat<double>(reader, dtype, to);
  }
  return false;
}

void AppendElement(std::string* to, DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kBool:
      to->append(LoadAs<uint8_t>(from) != 0 ? "true" : "false");
      return;
    case DType::kI8:
      StrAppend(to, int{LoadAs<int8_t>(from)});
      return;
    case DType::kU8:
      StrAppend(to, int{LoadAs<uint8_t>(from)});
      return;
    case DType::kI16:
      StrAppend(to, LoadAs<int16_t>(from));
      return;
    case DType::kU16:
      StrAppend(to, LoadAs<uint16_t>(from));
      return;
    case DType::kI32:
      StrAppend(to, LoadAs<int32_t>(from));
      return;
    case DType::kU32:
      StrAppend(to, LoadAs<uint32_t>(from));
      return;
    case DType::kI64:
      StrAppend(to, LoadAs<int64_t>(from));
      return;
    case DType::kU64:
      StrAppend(to, LoadAs<uint64_t>(from));
      return;
    case DType::kF16:
      AppendJsonNumber(to, static_cast<float>(LoadAs<Half>(from)));
      return;
    case DType::kBF16:
      AppendJsonNumber(to, static_cast<float>(LoadAs<BFloat16>(from)));
      return;
    case DType::kF32:
      AppendJsonNumber(to, LoadAs<float>(from));
      return;
    case DType::kF64:
      AppendJsonNumber(to, LoadAs<double>(from));
      return;
  }
}

// Whether "nan" would read back as these very bits.
template <typename T>
bool HasOtherNaN(const Tensor& tensor) {
  const T plain = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  for (const T& value : tensor.data<T>()) {
    if (std::isnan(static_cast<double>(value)) && std::memcmp(&value, &plain, sizeof(T)) != 0) {
      return true;
    }
  }
  return false;
}

bool FitsInline(const Tensor& tensor) {
  if (tensor.num_elements() > kMaxInlineElements) return false;
  switch (tensor.dtype()) {
    case DType::kF16:
      return !HasOtherNaN<Half>(tensor);
    case DType::kBF16:
      return !HasOtherNaN<BFloat16>(tensor);
    case DType::kF32:
      return !HasOtherNaN<float>(tensor);
    case DType::kF64:
      return !HasOtherNaN<double>(tensor);
    default:
      return true;
  }
}

// --- Readers of each kind -----------------------------------------------------------------------

bool ReadInline(const JsonReader& reader, const TensorType& type, Tensor* to) {
  const int64_t elements = NumElements(type.shape);
  if (!reader.IsArray() || reader.value().size != elements || elements > kMaxInlineElements) {
    reader.Error("wrong number of elements",
                 elements > kMaxInlineElements
                     ? StrCat("at most ", kMaxInlineElements, " inline; a file or base64 for more")
                     : StrCat("a flat array of ", elements, " for ", ToString(type)),
                 reader.Describe());
    return false;
  }
  *to = Tensor::Zeros(type);
  std::byte* at = to->mutable_bytes();
  bool ok = true;
  reader.ForEachElement([&](const JsonReader& element) {
    ok &= ReadElement(element, type.dtype, at);
    at += SizeOf(type.dtype);
  });
  return ok;
}

bool ReadBase64(const JsonReader& reader, const TensorType& type, Tensor* to) {
  const int64_t size = ByteSize(type), length = (size + 2) / 3 * 4;
  if (!reader.IsString() || reader.value().size != length) {
    reader.Error("not the data of this type",
                 StrCat("a base64 string of ", length, " characters for ", ToString(type)),
                 reader.IsString() ? StrCat("one of ", reader.value().size) : reader.Describe());
    return false;
  }
  // Abseil's decoder takes more spellings than one: what it read must be spelled as we write it.
  const std::string_view text = reader.value().string();
  std::string bytes;
  if (!absl::Base64Unescape(AbslView(text), &bytes) ||
      absl::Base64Escape(bytes) != AbslView(text)) {
    reader.Error("not base64 (RFC 4648, with padding)");
    return false;
  }
  if (type.dtype == DType::kBool &&
      bytes.find_first_not_of(std::string_view("\0\1", 2)) != bytes.npos) {
    reader.Error("a bool is neither 0 nor 1");
    return false;
  }
  *to = Tensor::Zeros(type);
  std::memcpy(to->mutable_bytes(), bytes.data(), bytes.size());
  return true;
}

constexpr std::string_view kInitNames[] = {"zeros",  "ones",      "uniform",
                                           "normal", "he_normal", "xavier_uniform"};

enum Key { kFile, kTensor, kInline, kBase64, kSplat, kInit, kSeed, kLow, kHigh, kStd, kNumKeys };
constexpr std::string_view kKeys[kNumKeys] = {"file", "tensor", "inline", "base64", "splat",
                                              "init", "seed",   "low",    "high",   "std"};

class DataReader {
 public:
  DataReader(const JsonReader& reader, const TensorType& type) : reader_(reader), type_(type) {}

  std::optional<DataSource> Read() {
    const int64_t faults_before = reader_.diagnostics().total();
    if (!reader_.Members(kKeys, members_, /*extensions=*/false)) return std::nullopt;
    int kinds = 0;
    std::string found;
    for (const Key key : {kFile, kInline, kBase64, kSplat, kInit}) {
      if (!Has(key)) continue;
      StrAppend(&found, kinds++ > 0 ? ", " : "", "\"", kKeys[key], "\"");
    }
    if (kinds != 1) {
      // A misspelt key was told of already.
      if (reader_.diagnostics().total() > faults_before) return std::nullopt;
      reader_.Error("not a source of data",
                    "exactly one of \"file\", \"inline\", \"base64\", \"splat\", \"init\"",
                    kinds == 0 ? reader_.Describe() : found);
      return std::nullopt;
    }
    DataSource data;
    const bool ok = Has(kFile)     ? ReadFile(data)
                    : Has(kInline) ? ReadTensor(data, DataSource::Kind::kInline)
                    : Has(kBase64) ? ReadTensor(data, DataSource::Kind::kBase64)
                    : Has(kSplat)  ? ReadSplat(data)
                                   : ReadInit(data);
    if (!ok) return std::nullopt;
    return data;
  }

 private:
  bool Has(Key key) const { return members_[key].has_value(); }

  // The keys that go with `kind`; any other one there is asked for in vain.
  bool OnlyWith(std::string_view kind, std::initializer_list<Key> keys) const {
    bool ok = true;
    for (int key = 0; key < kNumKeys; ++key) {
      if (!members_[key].has_value()) continue;
      bool allowed = false;
      for (const Key known : keys) allowed |= known == key;
      if (!allowed) {
        members_[key]->Error(StrCat("\"", kKeys[key], "\" means nothing with ", kind));
        ok = false;
      }
    }
    return ok;
  }

  bool ReadFile(DataSource& data) const {
    data.kind = DataSource::Kind::kFile;
    if (!OnlyWith("\"file\"", {kFile, kTensor})) return false;
    if (!Has(kTensor)) {
      reader_.Error("key \"tensor\" is missing");
      return false;
    }
    auto file = members_[kFile]->String(), tensor = members_[kTensor]->String();
    if (!file.has_value() || !tensor.has_value()) return false;
    data.file = *std::move(file);
    data.tensor_name = *std::move(tensor);
    return true;
  }

  bool ReadTensor(DataSource& data, DataSource::Kind kind) const {
    data.kind = kind;
    if (kind == DataSource::Kind::kInline) {
      return OnlyWith("\"inline\"", {kInline}) &&
             ReadInline(*members_[kInline], type_, &data.tensor);
    }
    return OnlyWith("\"base64\"", {kBase64}) && ReadBase64(*members_[kBase64], type_, &data.tensor);
  }

  bool ReadSplat(DataSource& data) const {
    data.kind = DataSource::Kind::kSplat;
    data.tensor = Tensor::Zeros({type_.dtype, {}});
    return OnlyWith("\"splat\"", {kSplat}) &&
           ReadElement(*members_[kSplat], type_.dtype, data.tensor.mutable_bytes());
  }

  bool ReadInit(DataSource& data) const {
    data.kind = DataSource::Kind::kInit;
    const std::optional<std::string> name = members_[kInit]->String();
    if (!name.has_value()) return false;
    const auto* found = std::find(std::begin(kInitNames), std::end(kInitNames), *name);
    if (found == std::end(kInitNames)) {
      const std::vector<std::string> known(std::begin(kInitNames), std::end(kInitNames));
      members_[kInit]->Error("unknown init", StrCat("one of ", absl::StrJoin(known, ", ")),
                             members_[kInit]->Describe(), DidYouMean(*name, known));
      return false;
    }
    Init& init = data.init;
    init.kind = static_cast<InitKind>(found - std::begin(kInitNames));
    const std::string what = StrCat("init \"", *name, "\"");
    bool ok = init.kind == InitKind::kUniform  ? OnlyWith(what, {kInit, kSeed, kLow, kHigh})
              : init.kind == InitKind::kNormal ? OnlyWith(what, {kInit, kSeed, kStd})
                                               : OnlyWith(what, {kInit, kSeed});
    if (Has(kSeed)) {
      const std::optional<uint64_t> seed = members_[kSeed]->Uint64();
      ok &= seed.has_value();
      init.seed = seed.value_or(0);
    }
    ok &= ReadFinite(kLow, &init.low);
    ok &= ReadFinite(kHigh, &init.high);
    ok &= ReadFinite(kStd, &init.std);
    if (!ok) return false;
    const absl::Status status = CheckInit(type_, init);
    if (!status.ok()) reader_.Error(StdView(status.message()));
    return status.ok();
  }

  bool ReadFinite(Key key, double* to) const {
    if (!Has(key)) return true;
    if (members_[key]->IsString()) {
      members_[key]->Error("wrong kind of value", "a finite number", members_[key]->Describe());
      return false;
    }
    const std::optional<double> number = members_[key]->Number();
    if (number.has_value()) *to = *number;
    return number.has_value();
  }

  const JsonReader& reader_;
  const TensorType& type_;
  std::optional<JsonReader> members_[kNumKeys];
};

void AppendInit(std::string* to, const Init& init) {
  StrAppend(to, "{\"init\": \"", kInitNames[static_cast<int>(init.kind)], "\"");
  if (init.seed != 0) StrAppend(to, ", \"seed\": ", init.seed);
  if (init.kind == InitKind::kUniform) {
    StrAppend(to, ", \"low\": ", JsonNumber(init.low), ", \"high\": ", JsonNumber(init.high));
  }
  if (init.kind == InitKind::kNormal) StrAppend(to, ", \"std\": ", JsonNumber(init.std));
  to->push_back('}');
}

void AppendTensor(std::string* to, const Tensor& tensor, bool as_base64) {
  if (as_base64 || !FitsInline(tensor)) {
    const absl::string_view bytes(reinterpret_cast<const char*>(tensor.bytes()),
                                  static_cast<size_t>(tensor.size_bytes()));
    StrAppend(to, "{\"base64\": \"", absl::Base64Escape(bytes), "\"}");
    return;
  }
  to->append("{\"inline\": [");
  const int64_t element = SizeOf(tensor.dtype()), size = tensor.size_bytes();
  for (int64_t at = 0; at < size; at += element) {
    if (at > 0) to->append(", ");
    AppendElement(to, tensor.dtype(), tensor.bytes() + at);
  }
  to->append("]}");
}

}  // namespace

std::optional<DataSource> ReadData(const JsonReader& reader, const TensorType& type) {
  return DataReader(reader, type).Read();
}

void AppendData(std::string* to, const DataSource& data) {
  switch (data.kind) {
    case DataSource::Kind::kNone:
      to->append("{}");
      return;  // refused when it is read, as it must
    case DataSource::Kind::kFile:
      StrAppend(to, "{\"file\": ", JsonString(data.file),
                ", \"tensor\": ", JsonString(data.tensor_name), "}");
      return;
    case DataSource::Kind::kInline:
      AppendTensor(to, data.tensor, /*as_base64=*/false);
      return;
    case DataSource::Kind::kBase64:
      AppendTensor(to, data.tensor, /*as_base64=*/true);
      return;
    case DataSource::Kind::kSplat:
      to->append("{\"splat\": ");
      AppendElement(to, data.tensor.dtype(), data.tensor.bytes());
      to->push_back('}');
      return;
    case DataSource::Kind::kInit:
      AppendInit(to, data.init);
      return;
  }
}

}  // namespace millrace
