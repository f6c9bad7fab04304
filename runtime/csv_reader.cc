// The file is read twice: once to check it and count rows, so that the result is allocated once and
// only when the file is known to hold that much (a compressed file can claim to grow a
// thousandfold), and once to fill it.
#include "runtime/csv_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kChunkBytes = 1 << 16;
constexpr size_t kLongestLine = size_t{1} << 24;  // bytes

// Plain or compressed text, line after line.
class LineReader {
 public:
  static absl::StatusOr<LineReader> Open(const std::string& path) {
    LineReader reader;
    errno = 0;
    reader.file_.reset(gzopen(path.c_str(), "rb"));
    if (reader.file_ != nullptr) return reader;
    const std::string why = errno != 0 ? std::strerror(errno) : "no memory";
    return MissingFileError(StrCat(path, ": cannot open: ", why));
  }

  // False at the end, and on errors: see status().
  bool Next() {
    line_.clear();
    if (number_ < INT32_MAX) ++number_;
    for (int c = NextByte(); c >= 0; c = NextByte()) {
      if (c == '\n') return true;
      if (line_.size() == kLongestLine) {
        too_long_ = true;
        return false;
      }
      line_.push_back(static_cast<char>(c));
    }
    return !line_.empty() && size_ >= 0;
  }

  // Without its end, which is \n or \r\n.
  absl::string_view line() const { return absl::StripTrailingAsciiWhitespace(line_); }
  int32_t number() const { return number_; }

  absl::Status status(const std::string& path) const {
    if (too_long_) return BadInputError(StrCat(path, ":", number_, ": the line is too long"));
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return absl::OkStatus();
    // A directory opens, but does not read.
    return BadInputError(StrCat(path, ": ", code == Z_ERRNO ? std::strerror(errno) : message));
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  int NextByte() {
    if (at_ == size_) {
      at_ = 0;
      size_ = gzread(file_.get(), chunk_.data(), kChunkBytes);
    }
    return at_ < size_ ? static_cast<unsigned char>(chunk_[at_++]) : -1;
  }

  std::unique_ptr<gzFile_s, Close> file_;
  std::vector<char> chunk_ = std::vector<char>(kChunkBytes);
  int at_ = 0, size_ = 0;  // size_ < 0: an error
  std::string line_;
  int32_t number_ = 0;
  bool too_long_ = false;
};

// One pass over the file.
class CsvScan {
 public:
  using Visit = absl::FunctionRef<void(float)>;

  CsvScan(const std::string& path, int first_column, int last_column)
      : path_(path), first_(first_column), last_(last_column) {}

  int64_t rows() const { return rows_; }

  // Calls `visit` with each chosen field, row after row.
  absl::Status Run(Visit visit) {
    MILLRACE_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(path_));
    while (reader.Next()) {
      if (reader.line().empty()) continue;
      MILLRACE_RETURN_IF_ERROR(ReadRow(reader.line(), reader.number(), visit));
      ++rows_;
    }
    return reader.status(path_);
  }

 private:
  absl::Status ReadRow(absl::string_view line, int32_t number, Visit visit) {
    int64_t fields = 0;
    for (size_t begin = 0; begin <= line.size(); ++fields) {
      const size_t end = std::min(line.find(',', begin), line.size());
      if (fields >= first_ && fields <= last_) {
        MILLRACE_RETURN_IF_ERROR(
            ReadField(line.substr(begin, end - begin), number, begin + 1, visit));
      }
      begin = end + 1;
    }
    if (rows_ == 0) width_ = fields;
    if (fields != width_) {
      return Error(number, 1, StrCat("a row of ", fields, " fields"),
                   StrCat(width_, " as in the first row"));
    }
    if (fields <= last_) {
      return Error(number, 1, StrCat("a row of ", fields, " fields"),
                   StrCat("more, since column ", last_, " (from 0) was asked for"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(absl::string_view field, int32_t line, size_t column, Visit visit) const {
    const absl::string_view text = absl::StripAsciiWhitespace(field);
    const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
    float value = 0;
    const auto parsed =
        absl::from_chars(text.data() + (plus ? 1 : 0), text.data() + text.size(), value);
    if (parsed.ptr != text.data() + text.size() || parsed.ec == std::errc::invalid_argument) {
      return Error(line, column, StrCat("found '", text.substr(0, 40), "'"), "a number");
    }
    if (parsed.ec == std::errc::result_out_of_range && std::abs(value) > 1) {
      return Error(line, column, StrCat("found '", text.substr(0, 40), "'"),
                   "a number in the range of f32");
    }
    visit(value);
    return absl::OkStatus();
  }

  absl::Status Error(int32_t line, size_t column, std::string_view message,
                     std::string_view expected) const {
    Diagnostic diagnostic;
    diagnostic.file = path_;
    diagnostic.position = {line, static_cast<int32_t>(column)};
    diagnostic.message = message;
    diagnostic.expected = expected;
    return BadInputError(FormatDiagnostic(diagnostic));
  }

  const std::string& path_;
  const int first_, last_;
  int64_t rows_ = 0;
  int64_t width_ = 0;  // fields of the first row
};

}  // namespace

absl::StatusOr<Tensor> ReadCsv(const std::string& path, int first_column, int last_column) {
  if (first_column < 0 || last_column < first_column) {
    return UsageError(StrCat("columns ", first_column, " to ", last_column, " of ", path));
  }
  CsvScan count(path, first_column, last_column);
  MILLRACE_RETURN_IF_ERROR(count.Run([](float) {}));
  const TensorType type{DType::kF32, {count.rows(), int64_t{last_column} - first_column + 1}};
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  const std::span<float> values = tensor.mutable_data<float>();
  size_t next = 0;
  CsvScan fill(path, first_column, last_column);
  MILLRACE_RETURN_IF_ERROR(fill.Run([&](float value) {
    if (next < values.size()) values[next++] = value;
  }));
  if (next != values.size()) return BadInputError(StrCat(path, ": changed while it was read"));
  return tensor;
}

}  // namespace millrace
