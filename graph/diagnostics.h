// What is wrong with an input, told so that its author can mend it: place, expected, found, and the
// nearest known name. Loaders, inference and verifiers add to one list and go on, so that a user
// sees up to kMaxShown errors at once.
#ifndef MILLRACE_GRAPH_DIAGNOSTICS_H_
#define MILLRACE_GRAPH_DIAGNOSTICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"

namespace millrace {

// A place in a text file; line and column count from 1, columns in bytes. 0: unknown.
struct FilePosition {
  int32_t line = 0;
  int32_t column = 0;
  bool operator==(const FilePosition&) const = default;
};

struct Diagnostic {
  std::string file;        // as the user named it; may be empty
  FilePosition position;   // text files
  int64_t offset = -1;     // binary files: byte offset; -1: none
  std::string pointer;     // JSON pointer ("/nodes/3/inputs/0"), or the node's name for built graphs
  std::string message;     // what is wrong, with names: "MatMul 'fc': inner sizes differ"
  std::string expected;    // optional
  std::string found;       // optional
  std::string hint;        // optional: "did you mean 'Relu'?"
};

// "model.json:12:7: /nodes/3/op: unknown op 'Rellu'; expected ..., found ...; did you mean 'Relu'?"
std::string FormatDiagnostic(const Diagnostic& diagnostic);

class Diagnostics {
 public:
  static constexpr int kMaxShown = 20;

  // Keeps the first kMaxShown; counts all.
  void Add(Diagnostic diagnostic);

  bool ok() const { return total_ == 0; }
  int64_t total() const { return total_; }
  bool full() const { return total_ >= kMaxShown; }
  const std::vector<Diagnostic>& shown() const { return shown_; }

  // Ok, or BadInputError with one diagnostic a line and "... and N more" at the end.
  absl::Status ToStatus() const;

 private:
  std::vector<Diagnostic> shown_;
  int64_t total_ = 0;
};

// The candidate closest to `name` by edits, swaps of neighbours among them (at most a third of its
// length), or "".
// Deterministic: ties go to the first candidate.
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

// "did you mean 'X'?" for NearestName, or "".
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_DIAGNOSTICS_H_
