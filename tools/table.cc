#include "tools/table.h"

#include <algorithm>

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// Code points of UTF-8 text: the width of all but exotic characters.
size_t Width(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

void Table::Row(std::vector<std::string> cells) {
  MILLRACE_CHECK(cells.size() <= headers_.size());
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(std::string_view indent) const {
  const size_t columns = headers_.size();
  std::vector<std::string> titles = headers_;
  std::vector<bool> right(columns);
  std::vector<size_t> widths(columns);
  for (size_t c = 0; c < columns; ++c) {
    right[c] = titles[c].starts_with('>');
    if (right[c]) titles[c].erase(0, 1);
    widths[c] = Width(titles[c]);
    for (const auto& row : rows_) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  auto append = [&](const std::vector<std::string>& cells) {
    std::string line(indent);
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - Width(cells[c]), ' ');
      StrAppend(&line, c == 0 ? "" : "  ", right[c] ? padding : "", cells[c],
                right[c] ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    StrAppend(&text, line, "\n");
  };
  if (std::any_of(titles.begin(), titles.end(), [](const auto& t) { return !t.empty(); })) {
    append(titles);
  }
  for (const auto& row : rows_) append(row);
  return text;
}

}  // namespace millrace
