// A table of text in aligned columns, for the terminal.
#ifndef MILLRACE_TOOLS_TABLE_H_
#define MILLRACE_TOOLS_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Table {
 public:
  // One header a column; one that starts with '>' is aligned right. Without any header text no
  // header line is printed.
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}

  // Cells beyond the last given are empty; no more cells than columns.
  void Row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Columns two spaces apart, each line after `indent`, no spaces at line ends.
  std::string ToString(std::string_view indent = "") const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_TABLE_H_
