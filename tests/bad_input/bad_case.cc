#include "tests/bad_input/bad_case.h"

#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/assert.h"
#include "graph/strings.h"
#ifdef MILLRACE_HAVE_ONNX
#include <google/protobuf/text_format.h>

#include "ops/onnx/proto.h"
#endif

namespace millrace {
namespace {

constexpr char kCaseLine[] = "====\n";
constexpr char kExpectedLine[] = "---\n";

std::string LittleEndian(size_t value, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(value >> (8 * i));
  return s;
}

std::string Gzip(std::string text) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream = {};
  MILLRACE_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                              Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  MILLRACE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view text) : text_(text) {}

  absl::StatusOr<std::string> Run() {
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c != '\\') {
        out += c;
        continue;
      }
      MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, Escape());
      out += bytes;
    }
    return out;
  }

 private:
  absl::Status Error() const {
    return UsageError(StrCat("bad escape before '", text_.substr(at_, 20), "'"));
  }

  absl::StatusOr<std::string> Escape() {
    if (at_ == text_.size()) return Error();
    switch (text_[at_++]) {
      case 'n':
        return "\n";
      case 'r':
        return "\r";
      case 't':
        return "\t";
      case '0':
        return std::string(1, '\0');
      case '\\':
        return "\\";
      case 'x':
        return Hex();
      case '*':
        return Repeat();
      case 'L': {
        MILLRACE_ASSIGN_OR_RETURN(const std::string text, Braces());
        return LittleEndian(text.size(), 8) + text;
      }
      case 'S': {
        MILLRACE_ASSIGN_OR_RETURN(const std::string text, Braces());
        return LittleEndian(text.size(), 2) + text;
      }
      case 'G': {
        MILLRACE_ASSIGN_OR_RETURN(std::string text, Braces());
        return Gzip(std::move(text));
      }
      default:
        return Error();
    }
  }

  absl::StatusOr<std::string> Hex() {
    int byte = 0;
    if (!absl::SimpleHexAtoi(AbslView(text_.substr(at_, 2)), &byte)) return Error();
    at_ += 2;
    return std::string(1, static_cast<char>(byte));
  }

  absl::StatusOr<std::string> Repeat() {
    const size_t brace = text_.find('{', at_);
    size_t count = 0;
    if (brace == std::string_view::npos ||
        !absl::SimpleAtoi(AbslView(text_.substr(at_, brace - at_)), &count)) {
      return Error();
    }
    at_ = brace;
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Braces());
    std::string out;
    out.reserve(count * text.size());
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
  }

  // "{...}", unescaped, without the outer braces.
  absl::StatusOr<std::string> Braces() {
    if (at_ == text_.size() || text_[at_] != '{') return Error();
    int depth = 0;
    for (size_t end = at_; end < text_.size(); ++end) {
      if (text_[end] == '{') ++depth;
      if (text_[end] == '}' && --depth == 0) {
        const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return Unescaper(inside).Run();
      }
    }
    return Error();
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// The wire form of a model in text form.
absl::StatusOr<std::string> OnnxBytes([[maybe_unused]] const std::string& text) {
#ifdef MILLRACE_HAVE_ONNX
  onnx::ModelProto model;
  std::string bytes;
  if (!google::protobuf::TextFormat::ParseFromString(text, &model) ||
      !model.SerializeToString(&bytes)) {
    return UsageError("the text is no ModelProto");
  }
  return bytes;
#else
  return UsageError("this build has no ONNX");
#endif
}

// "graph N=8: what is wrong" into the case.
absl::Status ParseTitle(absl::string_view line, BadCase& c) {
  const size_t colon = line.find(": ");
  if (!absl::ConsumePrefix(&line, "# ") || colon == absl::string_view::npos) {
    return UsageError(StrCat("a case begins with '# <format>: <title>', not '", line, "'"));
  }
  c.title = std::string(line.substr(colon));
  const std::vector<std::string> words = absl::StrSplit(line.substr(0, colon - 2), ' ');
  c.format = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string> sides = absl::StrSplit(words[i], '=');
    if (sides.size() != 2 || !absl::SimpleAtoi(sides[1], &c.symbols[sides[0]])) {
      return UsageError(StrCat("'", words[i], "' is no binding of a symbol"));
    }
  }
  return absl::OkStatus();
}

// "@ file name" and the lines after it.
absl::Status ParseFile(absl::string_view part, BadCase& c) {
  const std::pair<std::string, std::string> split = absl::StrSplit(part, absl::MaxSplits('\n', 1));
  const std::vector<std::string> words = absl::StrSplit(split.first, ' ');
  BadFile& file = c.files.emplace_back();
  const std::string& kind = words[0];
  if (words.size() != (absl::EndsWith(kind, "link") ? 3 : 2)) {
    return UsageError(StrCat("'@ ", split.first, "' has other words than expected"));
  }
  file.name = words[1];
  if (kind == "file") {
    file.contents = split.second;
  } else if (kind == "bytes") {
    MILLRACE_ASSIGN_OR_RETURN(file.contents,
                              Unescape(absl::StrReplaceAll(split.second, {{"\n", ""}})));
  } else if (kind == "onnx") {
    MILLRACE_ASSIGN_OR_RETURN(file.contents, OnnxBytes(split.second));
  } else if (kind == "symlink" || kind == "hardlink") {
    file.kind = kind == "symlink" ? BadFile::Kind::kSymlink : BadFile::Kind::kHardlink;
    file.target = words[2];
  } else if (kind == "fifo" || kind == "folder") {
    file.kind = kind == "fifo" ? BadFile::Kind::kFifo : BadFile::Kind::kFolder;
  } else {
    return UsageError(StrCat("'", kind, "' is no kind of file"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BadCase> ParseCase(absl::string_view text) {
  const std::pair<std::string, std::string> sides =
      absl::StrSplit(text, absl::MaxSplits(kExpectedLine, 1));
  BadCase c;
  c.text = sides.first;
  c.expected = std::string(absl::StripSuffix(sides.second, "\n"));
  const std::pair<absl::string_view, absl::string_view> head =
      absl::StrSplit(absl::string_view(c.text), absl::MaxSplits('\n', 1));
  MILLRACE_RETURN_IF_ERROR(ParseTitle(head.first, c));
  const std::string body = absl::StartsWith(head.second, "@ ")
                               ? std::string(head.second)
                               : StrCat("@ file ", MainFile(c), "\n", head.second);
  for (const absl::string_view part : absl::StrSplit("\n" + body, "\n@ ", absl::SkipEmpty())) {
    MILLRACE_RETURN_IF_ERROR(Annotate(ParseFile(part, c), c.title));
  }
  return c;
}

}  // namespace

std::string MainFile(const BadCase& c) {
  const bool own_suffix = c.format == "safetensors" || c.format == "npy" || c.format == "csv" ||
                          c.format == "onnx";
  return StrCat("bad.", own_suffix ? c.format : "json");
}

absl::StatusOr<std::string> Unescape(std::string_view text) { return Unescaper(text).Run(); }

absl::StatusOr<std::vector<BadCase>> ParseBadCases(std::string_view text) {
  std::vector<BadCase> cases;
  for (const absl::string_view part : absl::StrSplit(AbslView(text), kCaseLine)) {
    MILLRACE_ASSIGN_OR_RETURN(BadCase c, ParseCase(part));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::string BadCasesText(const std::vector<BadCase>& cases,
                         const std::vector<std::string>& expected) {
  std::string text;
  for (size_t i = 0; i < cases.size(); ++i) {
    StrAppend(&text, i > 0 ? kCaseLine : "", cases[i].text, kExpectedLine, expected[i], "\n");
  }
  return text;
}

absl::Status WriteBadFiles(const BadCase& c, const std::string& folder) {
  namespace fs = std::filesystem;
  for (const BadFile& file : c.files) {
    const std::string path = StrCat(folder, "/", file.name);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    switch (file.kind) {
      case BadFile::Kind::kFile:
        if (!(std::ofstream(path, std::ios::binary) << file.contents)) {
          error = std::make_error_code(std::errc::io_error);
        }
        break;
      case BadFile::Kind::kSymlink:
        fs::create_symlink(file.target, path, error);
        break;
      case BadFile::Kind::kHardlink:
        fs::create_hard_link(StrCat(folder, "/", file.target), path, error);
        break;
      case BadFile::Kind::kFifo:
        if (mkfifo(path.c_str(), 0600) != 0)
          error = std::error_code(errno, std::generic_category());
        break;
      case BadFile::Kind::kFolder:
        fs::create_directory(path, error);
        break;
    }
    if (error) return UsageError(StrCat("cannot make ", path, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace millrace
