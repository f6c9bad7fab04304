// The header of a .npy file is a Python dict literal with three entries:
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// It is read by a small parser for just that: strings without escapes, True and False, tuples of
// integers. Anything else is refused with the byte where it stands.
#include "graph/npy.h"

#include <cstring>
#include <optional>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxNpyHeaderBytes = 1 << 16;
constexpr size_t kDataAlignment = 64;

struct Spelling {
  DType dtype;
  std::string_view kind_and_size;
};
constexpr Spelling kSpellings[] = {{DType::kBool, "b1"}, {DType::kI8, "i1"},  {DType::kU8, "u1"},
                                   {DType::kI16, "i2"},  {DType::kU16, "u2"}, {DType::kI32, "i4"},
                                   {DType::kU32, "u4"},  {DType::kI64, "i8"}, {DType::kU64, "u8"},
                                   {DType::kF16, "f2"},  {DType::kF32, "f4"}, {DType::kF64, "f8"}};

struct Header {
  TensorType type;
  bool fortran_order = false;
};

class HeaderParser {
 public:
  // `offset`: of `text` in the file.
  HeaderParser(const std::string& path, std::string_view text, int64_t offset)
      : path_(path), text_(text), offset_(offset) {}

  absl::StatusOr<Header> Parse() {
    MILLRACE_RETURN_IF_ERROR(Expect('{'));
    while (Peek() != '}') {
      MILLRACE_RETURN_IF_ERROR(ParseEntry());
      if (Peek() != '}') MILLRACE_RETURN_IF_ERROR(Expect(','));
    }
    ++at_;
    if (Peek() != '\0' || at_ != text_.size()) {
      return Error("text after the header's dict", "the end of the header", Found());
    }
    for (const auto& [key, there] : {std::pair("descr", dtype_.has_value()),
                                     std::pair("fortran_order", fortran_order_.has_value()),
                                     std::pair("shape", shape_.has_value())}) {
      if (!there) return Error(StrCat("the header's dict lacks the key '", key, "'"));
    }
    Header header{{*dtype_, *shape_}, *fortran_order_};
    if (!CheckedByteSize(header.type).has_value()) {
      return Error("the array is too large", StrCat("at most ", kMaxBytes, " bytes"),
                   ToString(header.type));
    }
    return header;
  }

 private:
  absl::Status Error(std::string message, std::string expected = "", std::string found = "",
                     std::string hint = "") const {
    return BinaryFileError(path_, offset_ + static_cast<int64_t>(at_), std::move(message),
                           std::move(expected), std::move(found), std::move(hint));
  }

  // What stands here, for "found".
  std::string Found() const {
    if (at_ >= text_.size()) return "the end of the header";
    return JsonString(
        text_.substr(at_, std::min<size_t>(20, text_.find_first_of(",:\n", at_ + 1) - at_)));
  }

  // The next character that is no white space; '\0' at the end.
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  absl::Status Expect(char c) {
    if (Peek() != c) return Error("malformed header", StrCat("'", std::string(1, c), "'"), Found());
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ParseEntry() {
    Peek();
    const size_t begin = at_;
    MILLRACE_ASSIGN_OR_RETURN(const std::string_view key, ParseString());
    const bool twice = (key == "descr" && dtype_.has_value()) ||
                       (key == "fortran_order" && fortran_order_.has_value()) ||
                       (key == "shape" && shape_.has_value());
    if (twice || (key != "descr" && key != "fortran_order" && key != "shape")) {
      at_ = begin;
      const std::string shown = JsonString(key.substr(0, 40));
      if (twice) return Error(StrCat("the key ", shown, " is used twice"));
      const std::string known[] = {"descr", "fortran_order", "shape"};
      return Error(StrCat("unknown key ", shown), "'descr', 'fortran_order' and 'shape'", "",
                   DidYouMean(key, known));
    }
    MILLRACE_RETURN_IF_ERROR(Expect(':'));
    if (key == "descr") return ParseDType();
    if (key == "fortran_order") return ParseOrder();
    return ParseShape();
  }

  absl::StatusOr<std::string_view> ParseString() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Error("malformed header", "a string", Found());
    const size_t end = text_.find_first_of(quote == '"' ? "\"\\" : "'\\", at_ + 1);
    if (end == std::string_view::npos) return Error("a string does not end");
    if (text_[end] == '\\') return Error("a string has an escape");
    const std::string_view string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return string;
  }

  absl::Status ParseDType() {
    if (Peek() == '[') {
      return Error("a structured dtype", "one number an element", "",
                   "save each field as an array of its own");
    }
    const size_t begin = at_;
    MILLRACE_ASSIGN_OR_RETURN(std::string_view descr, ParseString());
    const std::string shown = JsonString(descr.substr(0, 40));
    at_ = begin;
    const char order = descr.empty() ? '\0' : descr[0];
    if (order == '<' || order == '|' || order == '=' || order == '>') descr.remove_prefix(1);
    for (const Spelling& spelling : kSpellings) {
      if (descr != spelling.kind_and_size && !(descr == "?" && spelling.dtype == DType::kBool)) {
        continue;
      }
      if (order == '>' && SizeOf(spelling.dtype) > 1) {
        return Error("a big-endian dtype", StrCat("\"<", descr, "\""), shown,
                     StrCat("save it with .astype('<", descr, "')"));
      }
      dtype_ = spelling.dtype;
      return ParseString().status();
    }
    return Error("unsupported dtype",
                 "bool, integers or floats of at most 8 bytes, such as \"<f4\"", shown);
  }

  absl::Status ParseOrder() {
    Peek();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      fortran_order_ = value;
      return absl::OkStatus();
    }
    return Error("malformed header", "True or False", Found());
  }

  absl::Status ParseShape() {
    MILLRACE_RETURN_IF_ERROR(Expect('('));
    Shape shape;
    while (Peek() != ')') {
      size_t end = at_;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(AbslView(text_.substr(at_, end - at_)), &dim)) {
        return Error("not a dim", "an integer from 0 to 2^63 - 1", Found());
      }
      if (shape.rank() == kMaxRank) return Error("too many dims", StrCat("at most ", kMaxRank));
      at_ = end;
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
      shape.push_back(dim);
      if (Peek() != ')') MILLRACE_RETURN_IF_ERROR(Expect(','));
    }
    ++at_;
    shape_ = shape;
    return absl::OkStatus();
  }

  const std::string& path_;
  const std::string_view text_;
  const int64_t offset_;
  size_t at_ = 0;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

// Copies elements whose first dim varies fastest into row-major order.
void CopyFromColumnMajor(const std::byte* from, const TensorType& type, std::byte* to) {
  const int rank = type.shape.rank();
  const size_t size = static_cast<size_t>(SizeOf(type.dtype));
  Shape strides = type.shape;  // in the file, elements
  int64_t stride = 1;
  for (int d = 0; d < rank; ++d) {
    strides[d] = stride;
    stride *= type.shape[d];
  }
  Shape index = type.shape;
  for (int d = 0; d < rank; ++d) index[d] = 0;
  int64_t source = 0;
  for (int64_t i = NumElements(type.shape); i > 0; --i, to += size) {
    std::memcpy(to, from + source * static_cast<int64_t>(size), size);
    for (int d = rank - 1; d >= 0; --d) {
      source += strides[d];
      if (++index[d] < type.shape[d]) break;
      source -= strides[d] * type.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped, MapFile(path));
  return ParseNpy(
      {reinterpret_cast<const char*>(mapped.bytes.get()), static_cast<size_t>(mapped.size)}, path);
}

absl::StatusOr<Tensor> ParseNpy(std::string_view file, const std::string& path) {
  const int64_t file_size = std::ssize(file);
  const auto byte = [&](size_t i) { return static_cast<int64_t>(static_cast<uint8_t>(file[i])); };
  if (!file.starts_with(kMagic)) {
    return BinaryFileError(
        path, 0, "not a .npy file", "it to begin with \"\\x93NUMPY\"",
        JsonString(file.substr(0, kMagic.size())),
        file.starts_with("PK") ? "an .npz archive holds several: unpack it" : "");
  }
  if (file.size() < 10) return BinaryFileError(path, file_size, "the file ends in its header");
  const int64_t version = byte(6);
  if (version < 1 || version > 3) {
    return BinaryFileError(path, 6, "unknown version of .npy", "1 to 3", StrCat(version));
  }
  const size_t header_begin = version == 1 ? 10 : 12;
  if (file.size() < header_begin) {
    return BinaryFileError(path, file_size, "the file ends in its header");
  }
  int64_t header_bytes = byte(8) | byte(9) << 8;
  if (version > 1) header_bytes |= byte(10) << 16 | byte(11) << 24;
  const int64_t most = std::min<int64_t>(kMaxNpyHeaderBytes, file_size - header_begin);
  if (header_bytes > most) {
    return BinaryFileError(path, 8, "the length of the header is not possible",
                           StrCat("at most ", most, " in a file of ", file_size, " bytes"),
                           StrCat(header_bytes));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const Header header,
      HeaderParser(path, file.substr(header_begin, header_bytes), header_begin).Parse());
  const int64_t data_begin = static_cast<int64_t>(header_begin) + header_bytes;
  const int64_t size = ByteSize(header.type);
  if (file_size - data_begin != size) {
    return BinaryFileError(path, data_begin, "the data do not have the size of the array",
                           StrCat(size, " bytes for ", ToString(header.type)),
                           StrCat(file_size - data_begin));
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(header.type));
  const auto* data = reinterpret_cast<const std::byte*>(file.data()) + data_begin;
  if (header.fortran_order) {
    CopyFromColumnMajor(data, header.type, tensor.mutable_bytes());
  } else {
    std::memcpy(tensor.mutable_bytes(), data, static_cast<size_t>(size));
  }
  if (header.type.dtype == DType::kBool) {  // whatever is not 0 is true
    std::byte* bytes = tensor.mutable_bytes();
    for (int64_t i = 0; i < size; ++i) bytes[i] = std::byte{bytes[i] != std::byte{0}};
  }
  return tensor;
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  const DType dtype = tensor.dtype() == DType::kBF16 ? DType::kU16 : tensor.dtype();
  std::string_view descr;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.dtype == dtype) descr = spelling.kind_and_size;
  }
  const Shape& shape = tensor.shape();
  std::string header =
      StrCat(kMagic, std::string_view("\1\0??", 4), "{'descr': '", SizeOf(dtype) > 1 ? "<" : "|",
             descr, "', 'fortran_order': False, 'shape': (", absl::StrJoin(shape, ", "),
             shape.rank() == 1 ? ",), }" : "), }");
  while (header.size() % kDataAlignment != kDataAlignment - 1) header += ' ';
  header += '\n';
  const size_t length = header.size() - 10;
  header[8] = static_cast<char>(length & 0xff);
  header[9] = static_cast<char>(length >> 8);
  const std::string_view parts[] = {
      header,
      {reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.size_bytes())}};
  return WriteFileAtomically(path, parts);
}

}  // namespace millrace
