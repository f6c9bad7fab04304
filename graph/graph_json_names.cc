#include "graph/graph_json_names.h"

#include "graph/strings.h"

namespace millrace {

std::optional<std::string_view> ReadName(const JsonReader& reader) {
  constexpr uint32_t kMaxName = 1024;
  const JsonValue& value = reader.value();
  if (reader.IsString() && value.size > 0 && value.size <= kMaxName) return value.string();
  reader.Error("not a name", StrCat("a string of 1 to ", kMaxName, " bytes"), reader.Describe());
  return std::nullopt;
}

void ValueNames::Reserve(size_t count) {
  g_.values.reserve(count);
  ids_.reserve(count);
}

ValueId ValueNames::Define(std::string_view name, const JsonReader& reader, ValueKind kind) {
  const ValueId id(g_.values.size());
  const auto [found, fresh] = ids_.try_emplace(AbslView(name), id);
  if (!fresh) {
    const FilePosition first = g_.value(found->second).position;
    reader.Error(StrCat("value '", name, "' is defined twice"), "", "",
                 StrCat("first at ", first.line, ":", first.column));
  }
  Value& value = g_.values.emplace_back();
  value.name = std::string(name);
  value.kind = kind;
  value.position = reader.position();
  return id;
}

std::optional<ValueId> ValueNames::Use(const JsonReader& reader) {
  const std::optional<std::string_view> name = ReadName(reader);
  if (!name.has_value()) return std::nullopt;
  return UseKey(*name, reader);
}

std::optional<ValueId> ValueNames::UseKey(std::string_view name, const JsonReader& member) {
  const auto found = ids_.find(AbslView(name));
  if (found != ids_.end()) return found->second;
  Undefined(name, member);
  return std::nullopt;
}

void ValueNames::Undefined(std::string_view name, const JsonReader& reader) {
  std::string hint;
  for (const ValueNames* outer = outer_; outer != nullptr; outer = outer->outer_) {
    if (outer->ids_.contains(AbslView(name))) {
      hint = "a nested graph sees its own values only: pass it in as an input";
    }
  }
  if (hint.empty() && !reader.diagnostics().full()) {
    for (size_t i = known_.size(); i < g_.values.size(); ++i) known_.push_back(g_.values[i].name);
    hint = DidYouMean(name, known_);
  }
  reader.Error(StrCat("value '", name, "' is not defined"), "", "", hint);
}

}  // namespace millrace
