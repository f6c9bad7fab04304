#include "graph/diagnostics.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "graph/printable.h"
#include "graph/strings.h"

namespace millrace {

std::string FormatDiagnostic(const Diagnostic& d) {
  std::string s = d.file;
  if (d.position.line > 0) {
    StrAppend(&s, s.empty() ? "" : ":", d.position.line, ":", d.position.column);
  }
  if (d.offset >= 0) StrAppend(&s, s.empty() ? "" : ":", "byte ", d.offset);
  if (!d.pointer.empty()) StrAppend(&s, s.empty() ? "" : ": ", d.pointer);
  StrAppend(&s, s.empty() ? "" : ": ", d.message);
  if (!d.expected.empty()) StrAppend(&s, "; expected ", d.expected);
  if (!d.found.empty()) StrAppend(&s, d.expected.empty() ? "; found " : ", found ", d.found);
  if (!d.hint.empty()) StrAppend(&s, "; ", d.hint);
  return Printable(s);
}

void Diagnostics::Add(Diagnostic diagnostic) {
  if (total_++ < kMaxShown) shown_.push_back(std::move(diagnostic));
}

absl::Status Diagnostics::ToStatus() const {
  if (ok()) return absl::OkStatus();
  std::string message;
  for (const Diagnostic& d : shown_) {
    StrAppend(&message, message.empty() ? "" : "\n", FormatDiagnostic(d));
  }
  const int64_t hidden = total_ - static_cast<int64_t>(shown_.size());
  if (hidden > 0) StrAppend(&message, "\n... and ", hidden, " more");
  return BadInputError(message);
}

namespace {

char ToLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// What it takes to turn `a` into `b`: 2 for each insertion, deletion, replacement or swap of
// neighbours, 1 for each letter of the other case. Given up (returns limit + 1) once it must exceed
// `limit`: optimal string alignment, row by row.
int EditDistance(std::string_view a, std::string_view b, int limit) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  if (2 * std::abs(n - m) > limit) return limit + 1;
  std::vector<int> two_above, above(m + 1), row(m + 1);
  for (int j = 0; j <= m; ++j) above[j] = 2 * j;
  for (int i = 1; i <= n; ++i) {
    row[0] = 2 * i;
    int best = row[0];
    for (int j = 1; j <= m; ++j) {
      const int other = ToLower(a[i - 1]) == ToLower(b[j - 1]) ? 1 : 2;
      const int replace = a[i - 1] == b[j - 1] ? 0 : other;
      row[j] = std::min({above[j - 1] + replace, above[j] + 2, row[j - 1] + 2});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 2);
      }
      best = std::min(best, row[j]);
    }
    if (best > limit) return limit + 1;
    two_above = above;
    above = row;
  }
  return above[m];
}

}  // namespace

std::string NearestName(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() < 2 || name.size() > 256) return "";  // one letter is like any other
  for (const std::string& candidate : candidates) {
    if (absl::EqualsIgnoreCase(AbslView(name), candidate)) return candidate;
  }
  int limit = 2 * std::max<int>(1, static_cast<int>(name.size()) / 3);
  std::string best;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate, limit);
    if (distance > limit) continue;
    best = candidate;
    limit = distance - 1;  // only a strictly nearer one replaces it
    if (limit < 0) break;
  }
  return best;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : StrCat("did you mean '", nearest, "'?");
}

}  // namespace millrace
