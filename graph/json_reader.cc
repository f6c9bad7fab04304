#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {

namespace {

constexpr size_t kMaxShownText = 60;

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxShownText) return std::string(text);
  size_t size = kMaxShownText;  // not in the middle of a UTF-8 character
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return StrCat(text.substr(0, size), "...");
}

}  // namespace

void JsonReader::AddError(uint32_t offset, std::string_view message, std::string_view expected,
                          std::string_view found, std::string_view hint) const {
  if (IsCountedOnly()) return;
  Diagnostic diagnostic;
  diagnostic.file = document_->file();
  document_->SetPlace(diagnostic, offset);
  diagnostic.pointer = pointer();
  diagnostic.message = std::string(message);
  diagnostic.expected = std::string(expected);
  diagnostic.found = std::string(found);
  diagnostic.hint = std::string(hint);
  diagnostics_->Add(std::move(diagnostic));
}

bool JsonReader::IsCountedOnly() const {
  if (!diagnostics_->full()) return false;
  diagnostics_->Add({});
  return true;
}

void JsonReader::Error(std::string_view message, std::string_view expected, std::string_view found,
                       std::string_view hint) const {
  AddError(value_->offset, message, expected, found, hint);
}

std::string JsonReader::Describe() const {
  switch (value_->kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return value_->boolean ? "true" : "false";
    case JsonKind::kInt:
    case JsonKind::kUint:
    case JsonKind::kDouble:
      return StrCat("number ", Shortened(document_->RawText(*value_)));
    case JsonKind::kString:
      return StrCat("string ", JsonString(Shortened(value_->string())));
    case JsonKind::kArray:
      return value_->size == 0 ? "an empty array" : StrCat("array of ", value_->size);
    case JsonKind::kObject:
      return value_->size == 0 ? "an empty object" : "an object";
  }
  return "";
}

std::string JsonReader::Text() const { return Shortened(document_->RawText(*value_)); }

std::optional<int64_t> JsonReader::Int(int64_t min, int64_t max) const {
  const bool is_int = value_->kind == JsonKind::kInt || value_->kind == JsonKind::kUint;
  const bool fits = value_->kind == JsonKind::kInt;
  if (fits && value_->integer >= min && value_->integer <= max) return value_->integer;
  const std::string expected = StrCat("an integer from ", min, " to ", max);
  Error(is_int ? "out of range" : "wrong kind of value", expected, Describe());
  return std::nullopt;
}

std::optional<uint64_t> JsonReader::Uint64() const {
  if (value_->kind == JsonKind::kUint) return value_->unsigned_integer;
  if (value_->kind == JsonKind::kInt && value_->integer >= 0) return value_->integer;
  Error(value_->kind == JsonKind::kInt ? "out of range" : "wrong kind of value",
        StrCat("an integer from 0 to ", std::numeric_limits<uint64_t>::max()), Describe());
  return std::nullopt;
}

std::optional<double> JsonReader::Number() const {
  switch (value_->kind) {
    case JsonKind::kDouble:
      return value_->number;
    case JsonKind::kUint:
      return static_cast<double>(value_->unsigned_integer);
    case JsonKind::kInt:
      if (value_->integer == 0 && document_->RawText(*value_)[0] == '-') return -0.0;
      return static_cast<double>(value_->integer);
    case JsonKind::kString:
      if (value_->string() == "nan") return std::numeric_limits<double>::quiet_NaN();
      if (value_->string() == "inf") return std::numeric_limits<double>::infinity();
      if (value_->string() == "-inf") return -std::numeric_limits<double>::infinity();
      break;
    default:
      break;
  }
  Error("wrong kind of value", "a number, \"nan\", \"inf\" or \"-inf\"", Describe());
  return std::nullopt;
}

std::optional<bool> JsonReader::Bool() const {
  if (value_->kind == JsonKind::kBool) return value_->boolean;
  Error("wrong kind of value", "true or false", Describe());
  return std::nullopt;
}

std::optional<std::string> JsonReader::String(size_t max_length, bool allow_empty) const {
  if (value_->kind != JsonKind::kString) {
    Error("wrong kind of value", "a string", Describe());
  } else if (value_->size > max_length) {
    Error("string too long", StrCat("at most ", max_length, " bytes"), StrCat(value_->size));
  } else if (value_->size == 0 && !allow_empty) {
    Error("the string is empty");
  } else {
    return std::string(value_->string());
  }
  return std::nullopt;
}

bool JsonReader::ForEachElement(absl::FunctionRef<void(JsonReader)> visit) const {
  if (!IsArray()) {
    Error("wrong kind of value", "an array", Describe());
    return false;
  }
  for (const JsonValue* v = document_->FirstChild(*value_); v != nullptr; v = document_->Next(*v)) {
    visit(At(*v));
  }
  return true;
}

bool JsonReader::ForEachMember(
    absl::FunctionRef<void(std::string_view key, JsonReader)> visit) const {
  if (!IsObject()) {
    Error("wrong kind of value", "an object", Describe());
    return false;
  }
  for (const JsonValue* v = document_->FirstChild(*value_); v != nullptr; v = document_->Next(*v)) {
    visit(v->key(), At(*v));
  }
  return true;
}

std::optional<JsonReader> JsonReader::Required(std::string_view key) const {
  if (IsObject() && document_->Find(*value_, key) == nullptr) {
    Error(StrCat("key ", JsonString(key), " is missing"));
    return std::nullopt;
  }
  return Optional(key);
}

std::optional<JsonReader> JsonReader::Optional(std::string_view key) const {
  if (!IsObject()) {
    Error("wrong kind of value", "an object", Describe());
    return std::nullopt;
  }
  const JsonValue* member = document_->Find(*value_, key);
  if (member == nullptr) return std::nullopt;
  return At(*member);
}

void JsonReader::UnknownKey(const JsonValue& member, const std::string_view* keys, size_t count,
                            bool extensions) const {
  if (extensions && member.key().starts_with("x-")) return;
  if (IsCountedOnly()) return;
  const std::vector<std::string> known(keys, keys + count);
  std::string hint = DidYouMean(member.key(), known);
  if (hint.empty()) {
    for (const std::string& key : known) StrAppend(&hint, hint.empty() ? "known: " : ", ", key);
  }
  At(member).AddError(member.key_offset, StrCat("unknown key ", JsonString(member.key())), "", "",
                      hint);
}

void JsonReader::OnlyKeys(std::initializer_list<std::string_view> known, bool extensions) const {
  if (!IsObject()) return;
  for (const JsonValue* v = document_->FirstChild(*value_); v != nullptr; v = document_->Next(*v)) {
    if (std::find(known.begin(), known.end(), v->key()) != known.end()) continue;
    UnknownKey(*v, known.begin(), known.size(), extensions);
  }
}

bool JsonReader::HasFormat(std::string_view format, int64_t major) const {
  if (!IsObject()) {
    Error("wrong kind of value", "an object", Describe());
    return false;
  }
  const auto name = Optional("format");
  if (!name.has_value()) {
    Error("not a file of this project: key \"format\" is missing",
          StrCat("\"format\": ", JsonString(format)));
    return false;
  }
  const auto version = Required("version");
  if (!version.has_value()) return false;
  if (!name->IsString() || name->value().string() != format) {
    name->Error("not this kind of file", JsonString(format), name->Describe());
    return false;
  }
  const std::string_view text = version->IsString() ? version->value().string() : "";
  const size_t dot = text.find('.');
  int64_t file_major = 0, file_minor = 0;
  if (dot == std::string_view::npos || text.find_first_not_of(".0123456789") != text.npos ||
      !absl::SimpleAtoi(AbslView(text.substr(0, dot)), &file_major) ||
      !absl::SimpleAtoi(AbslView(text.substr(dot + 1)), &file_minor)) {
    version->Error("not a version", StrCat("a string like \"", major, ".0\""), version->Describe());
    return false;
  }
  if (file_major != major) {
    version->Error(StrCat("version ", text, " of ", format, " is not known"),
                   StrCat("version ", major, ".x"), "",
                   file_major > major ? "a newer program may read it" : "");
    return false;
  }
  return true;
}

bool JsonReader::FindMembers(const std::string_view* keys, size_t count,
                             std::optional<JsonReader>* members, bool extensions) const {
  if (!IsObject()) {
    Error("wrong kind of value", "an object", Describe());
    return false;
  }
  size_t next = 0;  // files list members mostly in our order: start looking after the last match
  for (const JsonValue* v = document_->FirstChild(*value_); v != nullptr; v = document_->Next(*v)) {
    const std::string_view key = v->key();
    size_t tried = 0;
    while (tried < count && keys[next] != key) {
      if (++next == count) next = 0;
      ++tried;
    }
    if (tried == count) {
      UnknownKey(*v, keys, count, extensions);
    } else {
      members[next] = At(*v);
    }
  }
  return true;
}

}  // namespace millrace
