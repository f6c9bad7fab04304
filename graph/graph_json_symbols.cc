// Symbols in JSON, and what they are bound to: the value given at load, else the one the file was
// written for ("bound"), else the default.
#include "graph/graph_json_parts.h"
#include "graph/strings.h"

namespace millrace {
namespace {

bool IsSymbolName(std::string_view name) {
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9')) return false;
  }
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9');
}

// "from 1 to 1024, a multiple of 4"
std::string DescribeRange(const Symbol& symbol) {
  return StrCat("from ", symbol.min, " to ", symbol.max,
                symbol.multiple_of > 1 ? StrCat(", a multiple of ", symbol.multiple_of) : "");
}

bool InRange(const Symbol& symbol, int64_t value) {
  return value >= symbol.min && value <= symbol.max && value % symbol.multiple_of == 0;
}

// A value that the file itself gives.
std::optional<int64_t> ReadValue(const std::optional<JsonReader>& member, const Symbol& symbol) {
  if (!member.has_value()) return std::nullopt;
  const std::optional<int64_t> value = member->Int(0, kMaxBytes);
  if (value.has_value() && !InRange(symbol, *value)) {
    member->Error("outside the symbol's own range", DescribeRange(symbol), member->Describe());
  }
  return value;
}

void Bind(Symbol& symbol, std::optional<int64_t> bound, const std::string& file,
          const SymbolValues& set, std::vector<std::string>& complaints) {
  const auto given = set.find(symbol.name);
  if (given == set.end()) {
    if (bound.has_value() || symbol.default_value.has_value()) {
      symbol.value = bound.has_value() ? *bound : *symbol.default_value;
    } else {
      complaints.push_back(StrCat(file, ": symbol '", symbol.name,
                                  "' has no value; give one with --set ", symbol.name, "=... (",
                                  DescribeRange(symbol), ")"));
    }
    return;
  }
  symbol.value = given->second;
  if (!InRange(symbol, symbol.value)) {
    complaints.push_back(StrCat(file, ": --set ", symbol.name, "=", symbol.value,
                                " is out of range; expected a value ", DescribeRange(symbol)));
  } else if (bound.has_value() && symbol.value != *bound) {
    complaints.push_back(StrCat(file, ": --set ", symbol.name, "=", symbol.value,
                                ": this file was written for ", symbol.name, "=", *bound,
                                " and holds for that only"));
  }
}

Symbol ReadSymbol(std::string_view name, const JsonReader& reader, std::optional<int64_t>* bound) {
  static constexpr std::string_view kKeys[] = {"min", "max", "multiple_of", "default", "bound"};
  std::optional<JsonReader> members[5];
  Symbol symbol;
  symbol.name = std::string(name);
  if (!IsSymbolName(name)) {
    reader.Error(StrCat("'", name, "' is not a symbol's name"), "letters, digits and '_'");
  }
  if (!reader.Members(kKeys, members, /*extensions=*/false)) return symbol;
  const auto read = [&](int i, int64_t min, int64_t* to) {
    if (!members[i].has_value()) return;
    if (const auto value = members[i]->Int(min, kMaxBytes)) *to = *value;
  };
  read(0, 0, &symbol.min);
  read(1, 0, &symbol.max);
  read(2, 1, &symbol.multiple_of);
  if (symbol.min > symbol.max) {
    reader.Error("the symbol's range is empty", "min <= max",
                 StrCat(symbol.min, " > ", symbol.max));
  }
  symbol.default_value = ReadValue(members[3], symbol);
  *bound = ReadValue(members[4], symbol);
  return symbol;
}

}  // namespace

std::vector<Symbol> ReadSymbols(const std::optional<JsonReader>& reader, const std::string& file,
                                const SymbolValues& set, std::vector<std::string>& unbound) {
  std::vector<Symbol> symbols;
  std::vector<std::string> names;
  if (reader.has_value()) {
    reader->ForEachMember([&](std::string_view name, const JsonReader& member) {
      std::optional<int64_t> bound;
      Symbol& symbol = symbols.emplace_back(ReadSymbol(name, member, &bound));
      Bind(symbol, bound, file, set, unbound);
      names.push_back(symbol.name);
    });
  }
  for (const auto& [name, value] : set) {
    bool known = false;
    for (const std::string& symbol : names) known |= symbol == name;
    if (known) continue;
    const std::string hint = DidYouMean(name, names);
    unbound.push_back(StrCat(file, ": --set ", name, "=", value, ": the file has no symbol '", name,
                             "'", hint.empty() ? "" : "; ", hint));
  }
  return symbols;
}

void AppendSymbol(std::string* to, const Symbol& symbol, bool with_bound) {
  to->push_back('{');
  std::string_view separator = "";
  const auto append = [&](std::string_view key, int64_t value) {
    StrAppend(to, separator, "\"", key, "\": ", value);
    separator = ", ";
  };
  if (symbol.min != Symbol().min) append("min", symbol.min);
  if (symbol.max != Symbol().max) append("max", symbol.max);
  if (symbol.multiple_of != Symbol().multiple_of) append("multiple_of", symbol.multiple_of);
  if (symbol.default_value.has_value()) append("default", *symbol.default_value);
  if (with_bound && symbol.value >= 0) append("bound", symbol.value);
  to->push_back('}');
}

}  // namespace millrace
