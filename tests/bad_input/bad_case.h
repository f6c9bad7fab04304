// Cases of bad input, written so that a person reads the file and what is said about it. A file
// tests/bad_input/*.txt holds cases of the form
//
//   # <format>: what is wrong
//   <the bad file>
//   ---
//   <the message, whole>
//
// separated by lines of "====". <format> says how the file is read: graph, plan, machine, target,
// safetensors, npy, csv or onnx; "graph N=8 M=2" binds symbols. Lines starting with "@ " cut the text
// into several files:
//
//   @ file <name>                the lines that follow, as they stand
//   @ bytes <name>               the lines that follow, joined, with the escapes below
//   @ onnx <name>                the lines that follow, a ModelProto in protobuf's text format
//   @ symlink <name> <target>
//   @ hardlink <name> <target>
//   @ fifo <name>
//   @ folder <name>
//
// The file to read is bad.json (bad.safetensors, bad.npy, bad.csv, bad.onnx); text before the first
// "@ " is what is in it. Escapes: \n \r \t \0 \\ \xHH, and four that take a text in braces, which must
// balance:
//
//   \*1000{text}  the text, so many times
//   \L{text}      its length, 8 bytes little-endian, then the text: a safetensors header
//   \S{text}      its length, 2 bytes little-endian, then the text: a .npy header
//   \G{text}      the text, compressed by gzip
#ifndef MILLRACE_TESTS_BAD_INPUT_BAD_CASE_H_
#define MILLRACE_TESTS_BAD_INPUT_BAD_CASE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"

namespace millrace {

struct BadFile {
  enum class Kind { kFile, kSymlink, kHardlink, kFifo, kFolder };
  Kind kind = Kind::kFile;
  std::string name;      // may have folders in it
  std::string contents;  // kFile
  std::string target;    // of a link
};

struct BadCase {
  std::string text;    // as written, before "---"
  std::string format;  // "graph"
  std::string title;
  std::map<std::string, int64_t> symbols;
  std::vector<BadFile> files;
  std::string expected;  // without the line end
};

// The file a case is about: "bad.json".
std::string MainFile(const BadCase& c);

absl::StatusOr<std::vector<BadCase>> ParseBadCases(std::string_view text);
// The text that ParseBadCases reads, with new expectations.
std::string BadCasesText(const std::vector<BadCase>& cases,
                         const std::vector<std::string>& expected);

// `text` with the escapes above; UsageError for others.
absl::StatusOr<std::string> Unescape(std::string_view text);

// Makes the files of a case in an existing folder.
absl::Status WriteBadFiles(const BadCase& c, const std::string& folder);

}  // namespace millrace

#endif  // MILLRACE_TESTS_BAD_INPUT_BAD_CASE_H_
