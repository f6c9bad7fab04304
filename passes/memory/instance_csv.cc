#include "passes/memory/instance_csv.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 53;

// Cuts the text up to the next `separator`, or all of it, off `rest`.
std::string_view CutOff(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return head;
}

std::string_view CutOffLine(std::string_view& rest) {
  std::string_view line = CutOff(rest, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  do {
    fields.push_back(CutOff(line, ','));
  } while (!line.empty());
  return fields;
}

}  // namespace

absl::StatusOr<std::vector<TimedBuffer>> ParseInstanceCsv(std::string_view text,
                                                          std::string_view file) {
  const std::vector<std::string_view> header = SplitFields(CutOffLine(text));
  struct Column {
    std::string_view name;
    int64_t TimedBuffer::*member;
    size_t place = 0;
  };
  Column columns[] = {{"lower", &TimedBuffer::lower},
                      {"upper", &TimedBuffer::upper},
                      {"size", &TimedBuffer::size_bytes}};
  for (Column& column : columns) {
    column.place = std::find(header.begin(), header.end(), column.name) - header.begin();
    if (column.place == header.size()) {
      return BadInputError(StrCat(file, ":1: no column '", column.name, "'"));
    }
  }
  std::vector<TimedBuffer> buffers;
  for (int line_number = 2; !text.empty(); ++line_number) {
    const std::string_view line = CutOffLine(text);
    if (line.empty()) continue;
    const std::vector<std::string_view> fields = SplitFields(line);
    TimedBuffer& buffer = buffers.emplace_back();
    for (const Column& column : columns) {
      const std::string_view field =
          column.place < fields.size() ? fields[column.place] : std::string_view();
      int64_t& number = buffer.*column.member;
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
      if (error == std::errc() && end == field.data() + field.size() && number >= 0 &&
          number <= kMaxNumber) {
        continue;
      }
      return BadInputError(StrCat(file, ":", line_number, ": ", column.name, " is '", field,
                                  "', expected a whole number from 0 to 2^53"));
    }
  }
  return buffers;
}

}  // namespace millrace
