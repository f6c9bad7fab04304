// The file is read twice: once to check it and count rows, so that the result is allocated once and
// only when the file is known to hold that much (a compressed file can claim to grow a
// thousandfold), and once to fill it. Reading stops where there are more numbers than the caller
// can use, and where a compressed file turns out to be a bomb.
#include "runtime/csv_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "runtime/gzip_status.h"

namespace millrace {
namespace {

constexpr int kChunkBytes = 1 << 16;
constexpr size_t kLongestLine = size_t{1} << 20;  // bytes
// Compressed text of numbers is a third to a tenth of its size, of zeros a hundredth. A file may
// grow so much beyond what costs nothing anyway.
constexpr int64_t kMostGrowth = 200;
constexpr int64_t kSmallText = int64_t{1} << 26;

absl::Status LineError(const std::string& path, int32_t line, size_t column,
                       std::string_view message, std::string_view expected,
                       std::string_view found = "", std::string_view hint = "") {
  Diagnostic diagnostic;
  diagnostic.file = path;
  diagnostic.position = {line, static_cast<int32_t>(column)};
  diagnostic.message = message;
  diagnostic.expected = expected;
  diagnostic.found = found;
  diagnostic.hint = hint;
  return BadInputError(FormatDiagnostic(diagnostic));
}

// Plain or compressed text, line after line.
class LineReader {
 public:
  static absl::StatusOr<LineReader> Open(const std::string& path) {
    MILLRACE_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
    LineReader reader;
    reader.file_.reset(gzdopen(fd, "rb"));
    if (reader.file_ != nullptr) return reader;
    close(fd);
    return OutOfMemoryError(StrCat("no memory to read '", path, "'"));
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
    return !line_.empty() && size_ >= 0 && ZlibError() == Z_OK;
  }

  // Without its end, which is \n or \r\n.
  absl::string_view line() const { return absl::StripTrailingAsciiWhitespace(line_); }
  int32_t number() const { return number_; }

  absl::Status status(const std::string& path) const {
    if (too_long_) {
      return LineError(path, number_, 1, "the line is too long",
                       StrCat("at most ", kLongestLine, " bytes"));
    }
    if (bomb_) {
      return BinaryFileError(
          path, gzoffset(file_.get()), "the file grows too much when decompressed",
          StrCat("at most ", kMostGrowth, " times its size"), StrCat(text_bytes_, " bytes so far"),
          "if that is meant, decompress it first");
    }
    return GzipStatus(file_.get(), path);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  // Z_OK also at the end.
  int ZlibError() const {
    int code = Z_OK;
    gzerror(file_.get(), &code);
    return code == Z_STREAM_END ? Z_OK : code;
  }

  int NextByte() {
    if (at_ == size_) {
      at_ = 0;
      size_ = gzread(file_.get(), chunk_.data(), kChunkBytes);
      text_bytes_ += std::max(size_, 0);
      bomb_ = text_bytes_ > kSmallText && text_bytes_ / kMostGrowth > gzoffset(file_.get());
      if (bomb_) size_ = -1;
    }
    return at_ < size_ ? static_cast<unsigned char>(chunk_[at_++]) : -1;
  }

  std::unique_ptr<gzFile_s, Close> file_;
  std::vector<char> chunk_ = std::vector<char>(kChunkBytes);
  int at_ = 0, size_ = 0;  // size_ < 0: an error
  std::string line_;
  int32_t number_ = 0;
  bool too_long_ = false;
  int64_t text_bytes_ = 0;  // decompressed
  bool bomb_ = false;
};

// One pass over the file.
class CsvScan {
 public:
  using Visit = absl::FunctionRef<void(float)>;

  CsvScan(const std::string& path, int first_column, int last_column, int64_t max_elements)
      : path_(path), first_(first_column), last_(last_column), max_elements_(max_elements) {}

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
      return LineError(path_, number, 1, "the row is not as long as the first",
                       StrCat(width_, " fields"), StrCat(fields));
    }
    if (fields <= last_) {
      return LineError(path_, number, 1, StrCat("the row has no column ", last_, " (from 0)"),
                       StrCat("at least ", last_ + 1, " fields"), StrCat(fields));
    }
    const int64_t columns = int64_t{last_} - first_ + 1;
    if (rows_ >= max_elements_ / columns) {
      return LineError(path_, number, 1, "more rows than can be used",
                       StrCat("at most ", max_elements_ / columns));
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
      const bool title = line == 1 && !text.empty() && absl::ascii_isalpha(text[0]);
      return LineError(path_, line, column,
                       text.empty() ? "the field is empty" : "the field is not a number",
                       "a number", text.empty() ? "" : Shown(text),
                       title ? "if the first line names the columns, take it out" : "");
    }
    if (parsed.ec == std::errc::result_out_of_range && std::abs(value) > 1) {
      return LineError(path_, line, column, "out of range", "a number in the range of f32",
                       Shown(text));
    }
    visit(value);
    return absl::OkStatus();
  }

  static std::string Shown(absl::string_view field) {
    constexpr size_t kMost = 40;
    return StrCat("'", field.substr(0, kMost), field.size() > kMost ? "..." : "", "'");
  }

  const std::string& path_;
  const int first_, last_;
  const int64_t max_elements_;
  int64_t rows_ = 0;
  int64_t width_ = 0;  // fields of the first row
};

}  // namespace

absl::StatusOr<Tensor> ReadCsv(const std::string& path, int first_column, int last_column,
                               int64_t max_elements) {
  if (first_column < 0 || last_column < first_column) {
    return UsageError(StrCat("columns ", first_column, " to ", last_column, " of ", path));
  }
  CsvScan count(path, first_column, last_column, max_elements);
  MILLRACE_RETURN_IF_ERROR(count.Run([](float) {}));
  const TensorType type{DType::kF32, {count.rows(), int64_t{last_column} - first_column + 1}};
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  const std::span<float> values = tensor.mutable_data<float>();
  size_t next = 0;
  CsvScan fill(path, first_column, last_column, max_elements);
  MILLRACE_RETURN_IF_ERROR(fill.Run([&](float value) {
    if (next < values.size()) values[next++] = value;
  }));
  if (next != values.size()) return BadInputError(StrCat(path, ": changed while it was read"));
  return tensor;
}

absl::StatusOr<int64_t> CountCsvColumns(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(path));
  while (reader.Next()) {
    if (reader.line().empty()) continue;
    return 1 + std::ranges::count(reader.line(), ',');
  }
  MILLRACE_RETURN_IF_ERROR(reader.status(path));
  return 0;
}

}  // namespace millrace
