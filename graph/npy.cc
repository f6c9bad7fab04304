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
#include "graph/files.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeaderBytes = 1 << 16;
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
    if (Peek() != '\0' || at_ != text_.size()) return Error("unexpected text after the dict");
    if (!dtype_.has_value() || !fortran_order_.has_value() || !shape_.has_value()) {
      return Error("the dict lacks one of 'descr', 'fortran_order', 'shape'");
    }
    Header header{{*dtype_, *shape_}, *fortran_order_};
    if (!CheckedByteSize(header.type).has_value()) {
      return Error(StrCat(ToString(header.type), " is too large"));
    }
    return header;
  }

 private:
  absl::Status Error(std::string_view message) const {
    return BadInputError(
        StrCat(path_, ":byte ", offset_ + static_cast<int64_t>(at_), ": ", message));
  }

  // The next character that is no white space; '\0' at the end.
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  absl::Status Expect(char c) {
    if (Peek() != c) return Error(StrCat("expected '", std::string(1, c), "' in the header"));
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ParseEntry() {
    MILLRACE_ASSIGN_OR_RETURN(const std::string_view key, ParseString());
    MILLRACE_RETURN_IF_ERROR(Expect(':'));
    if (key == "descr" && !dtype_.has_value()) return ParseDType();
    if (key == "fortran_order" && !fortran_order_.has_value()) return ParseOrder();
    if (key == "shape" && !shape_.has_value()) return ParseShape();
    return Error(StrCat("unexpected key ", JsonString(key.substr(0, 40))));
  }

  absl::StatusOr<std::string_view> ParseString() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Error("expected a string in the header");
    const size_t end = text_.find_first_of(quote == '"' ? "\"\\" : "'\\", at_ + 1);
    if (end == std::string_view::npos) return Error("a string does not end");
    if (text_[end] == '\\') return Error("a string has an escape");
    const std::string_view string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return string;
  }

  absl::Status ParseDType() {
    if (Peek() == '[') return Error("structured dtypes are not supported; save each field alone");
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
        return Error(StrCat("dtype ", shown, " is big-endian; save it as '<", descr, "'"));
      }
      dtype_ = spelling.dtype;
      return ParseString().status();
    }
    return Error(StrCat("dtype ", shown, " is not supported; bool, signed and unsigned integers ",
                        "and floats of at most 8 bytes are"));
  }

  absl::Status ParseOrder() {
    Peek();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      fortran_order_ = value;
      return absl::OkStatus();
    }
    return Error("expected True or False");
  }

  absl::Status ParseShape() {
    MILLRACE_RETURN_IF_ERROR(Expect('('));
    Shape shape;
    while (Peek() != ')') {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(AbslView(text_.substr(begin, at_ - begin)), &dim)) {
        return Error("expected a dim that fits in 64 bits");
      }
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
      if (shape.rank() == kMaxRank) return Error(StrCat("more than ", kMaxRank, " dims"));
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
  const std::string_view file(reinterpret_cast<const char*>(mapped.bytes.get()),
                              static_cast<size_t>(mapped.size));
  const auto byte = [&](size_t i) { return static_cast<int64_t>(static_cast<uint8_t>(file[i])); };
  if (file.size() < 10 || !file.starts_with(kMagic)) {
    return BadInputError(StrCat(path, ": not a .npy file: the first bytes are not \\x93NUMPY"));
  }
  const int64_t version = byte(6);
  if (version < 1 || version > 3) {
    return BadInputError(StrCat(path, ":byte 6: .npy version ", version, "; 1 to 3 are known"));
  }
  const size_t header_begin = version == 1 ? 10 : 12;
  int64_t header_bytes = byte(8) | byte(9) << 8;
  if (version > 1 && file.size() >= 12) header_bytes |= byte(10) << 16 | byte(11) << 24;
  if (file.size() < header_begin ||
      header_bytes > std::min<int64_t>(kMaxHeaderBytes, mapped.size - header_begin)) {
    return BadInputError(StrCat(path, ":byte 8: the header is said to have ", header_bytes,
                                " bytes; the file has ", mapped.size, ", and ", kMaxHeaderBytes,
                                " are the limit"));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const Header header,
      HeaderParser(path, file.substr(header_begin, header_bytes), header_begin).Parse());
  const int64_t data_begin = static_cast<int64_t>(header_begin) + header_bytes;
  const int64_t size = ByteSize(header.type);
  if (mapped.size - data_begin != size) {
    return BadInputError(StrCat(path, ":byte ", data_begin, ": ", ToString(header.type), " has ",
                                size, " bytes, but ", mapped.size - data_begin, " follow"));
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(header.type));
  const std::byte* data = mapped.bytes.get() + data_begin;
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
