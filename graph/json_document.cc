// Parsing: nlohmann's SAX parser checks the grammar and decodes numbers and strings; the builder
// appends one JsonValue per event and links it to its parent and previous sibling.
//
// Places. The parser reads through an iterator that writes down how far it got, which is where the
// current token ends (a number ends one character earlier, because the parser must see what follows
// it). Where a token begins follows from where the last one ended: between tokens that we hear of,
// a valid text has only white space, ',' and ':'.
#include "graph/json_document.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "graph/files.h"
#include "graph/json_syntax.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

bool IsNumberChar(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

class JsonDocumentBuilder {
 public:
  JsonDocumentBuilder(JsonDocument& document, int max_depth, Diagnostics& diagnostics)
      : document_(document),
        diagnostics_(diagnostics),
        max_depth_(max_depth),
        begin_(document.text_->data()),
        end_(begin_ + document.text_->size()),
        token_end_(document.text_->starts_with("\xEF\xBB\xBF") ? begin_ + 3 : begin_),
        reached_(begin_) {}

  void Build() {
    FindLines();
    // Our files have more than 8 bytes a value; what is not used is never touched.
    document_.values_.reserve(static_cast<size_t>(end_ - begin_) / 8 + 1);
    try {
      const bool parsed = nlohmann::json::sax_parse(CountingIterator(begin_, &reached_),
                                                    CountingIterator(end_, &reached_), this);
      // The parser takes a zero byte for the end of the text.
      const char* end = token_end_;
      while (IsJsonSpace(*end)) ++end;
      if (parsed && end != end_) AddError(end - begin_, "unexpected zero byte");
    } catch (const nlohmann::json::exception& e) {
      parse_error(static_cast<size_t>(reached_ - begin_), "", e);
    }
  }

  // --- Called by the parser; false stops it ---
  bool null() { return Add(JsonKind::kNull) != nullptr; }
  bool boolean(bool value) {
    JsonValue* v = Add(JsonKind::kBool);
    if (v != nullptr) v->boolean = value;
    return v != nullptr;
  }
  bool number_integer(int64_t value) {
    JsonValue* v = Add(JsonKind::kInt);
    if (v != nullptr) v->integer = value;
    return v != nullptr;
  }
  bool number_unsigned(uint64_t value) {
    const bool fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    JsonValue* v = Add(fits ? JsonKind::kInt : JsonKind::kUint);
    if (v != nullptr) v->unsigned_integer = value;
    return v != nullptr;
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos) {
      AddError(TokenBegin() - begin_,
               StrCat("integer ", text.substr(0, 40), text.size() > 40 ? "..." : "",
                      " does not fit in 64 bits"));
      return false;
    }
    JsonValue* v = Add(JsonKind::kDouble);
    if (v != nullptr) v->number = value;
    return v != nullptr;
  }
  bool string(std::string& value) {
    JsonValue* v = Add(JsonKind::kString);
    if (v == nullptr) return false;
    const std::string_view kept = Keep(begin_ + v->offset, v->text_size, value);
    v->chars = kept.data();
    v->size = static_cast<uint32_t>(kept.size());
    return true;
  }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in JSON
  bool start_object(size_t) { return Open(JsonKind::kObject); }
  bool start_array(size_t) { return Open(JsonKind::kArray); }
  bool end_object() {
    FindDuplicateKeys(document_.values_[open_.back().index]);
    return Close();
  }
  bool end_array() { return Close(); }
  bool key(std::string& value) {
    const char* begin = TokenBegin();
    token_end_ = reached_;
    key_offset_ = static_cast<uint32_t>(begin - begin_);
    key_ = Keep(begin, reached_ - begin, value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    const char* token = token_end_;
    while (token < end_ && IsJsonSpace(*token)) ++token;
    if (token < end_ && (*token == ',' || *token == ':')) ++token;
    while (token < end_ && IsJsonSpace(*token)) ++token;
    JsonSyntaxError error = ExplainSyntaxError(*document_.text_, token - begin_,
                                               static_cast<int64_t>(position) - 1, e.what());
    Diagnostic diagnostic;
    diagnostic.message = std::move(error.message);
    diagnostic.expected = std::move(error.expected);
    diagnostic.found = std::move(error.found);
    diagnostic.hint = std::move(error.hint);
    AddError(error.offset, std::move(diagnostic));
    return false;
  }

 private:
  struct OpenContainer {
    int32_t index;
    int32_t last_child;
  };

  void FindLines() {
    document_.line_starts_.push_back(0);
    for (const char* at = begin_; at < end_;) {
      at = static_cast<const char*>(std::memchr(at, '\n', end_ - at));
      if (at == nullptr) break;
      document_.line_starts_.push_back(static_cast<uint32_t>(++at - begin_));
    }
  }

  const char* TokenBegin() const {
    const char* at = token_end_;
    while (IsJsonSpace(*at) || *at == ',' || *at == ':') ++at;
    return at;
  }

  // Where the current token ends: the parser looks one character past numbers, unless the text
  // ends there.
  const char* TokenEnd(JsonKind kind) const {
    const bool number =
        kind == JsonKind::kInt || kind == JsonKind::kUint || kind == JsonKind::kDouble;
    return number && !IsNumberChar(reached_[-1]) ? reached_ - 1 : reached_;
  }

  // A string token's value: a view of the text where nothing was escaped (then, and only then, the
  // lengths agree), or a copy.
  std::string_view Keep(const char* token, size_t token_size, std::string& value) {
    if (token_size == value.size() + 2) return {token + 1, value.size()};
    document_.unescaped_.push_back(std::move(value));
    return document_.unescaped_.back();
  }

  // nullptr when the document is full. The pointer is valid until the next call.
  JsonValue* Add(JsonKind kind) {
    std::vector<JsonValue>& values = document_.values_;
    if (values.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      AddError(reached_ - begin_, "too many values");
      return nullptr;
    }
    const int32_t index = static_cast<int32_t>(values.size());
    const char* begin = TokenBegin();
    token_end_ = TokenEnd(kind);
    JsonValue& value = values.emplace_back();
    value.kind = kind;
    value.offset = static_cast<uint32_t>(begin - begin_);
    value.text_size = static_cast<uint32_t>(token_end_ - begin);
    if (open_.empty()) return &value;
    OpenContainer& container = open_.back();
    value.parent = container.index;
    if (container.last_child >= 0) values[container.last_child].next = index;
    container.last_child = index;
    JsonValue& parent = values[container.index];
    ++parent.size;
    if (parent.kind == JsonKind::kObject) {
      value.key_chars = key_.data();
      value.key_size = static_cast<uint32_t>(key_.size());
      value.key_offset = key_offset_;
    }
    return &value;
  }

  bool Open(JsonKind kind) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      AddError(TokenBegin() - begin_, StrCat("nested more than ", max_depth_, " deep"));
      return false;
    }
    if (Add(kind) == nullptr) return false;
    open_.push_back({static_cast<int32_t>(document_.values_.size()) - 1, -1});
    return true;
  }

  bool Close() {
    JsonValue& value = document_.values_[open_.back().index];
    value.text_size = static_cast<uint32_t>(reached_ - begin_) - value.offset;
    token_end_ = reached_;
    open_.pop_back();
    return true;
  }

  void FindDuplicateKeys(const JsonValue& object) {
    constexpr uint32_t kFew = 12;  // comparing all pairs is faster up to here
    absl::flat_hash_map<absl::string_view, uint32_t> first_offsets;
    for (const JsonValue* m = document_.FirstChild(object); m != nullptr; m = document_.Next(*m)) {
      uint32_t first_offset = m->key_offset;
      if (object.size > kFew) {
        first_offset = first_offsets.try_emplace(AbslView(m->key()), m->key_offset).first->second;
      } else {
        const JsonValue* first = document_.FirstChild(object);
        while (first->key() != m->key()) first = document_.Next(*first);
        first_offset = first->key_offset;
      }
      if (first_offset == m->key_offset) continue;
      Diagnostic diagnostic;
      diagnostic.message = StrCat("key ", JsonString(m->key()), " is used twice");
      const FilePosition place = document_.PositionOf(first_offset);
      if (document_.offset_in_file_ < 0) {
        diagnostic.hint = StrCat("first at ", place.line, ":", place.column);
      }
      AddError(m->key_offset, std::move(diagnostic));
    }
  }

  // The place is filled in.
  void AddError(int64_t offset, Diagnostic diagnostic) {
    diagnostic.file = document_.file_;
    document_.SetPlace(diagnostic, offset);
    diagnostics_.Add(std::move(diagnostic));
  }
  void AddError(int64_t offset, std::string message) {
    Diagnostic diagnostic;
    diagnostic.message = std::move(message);
    AddError(offset, std::move(diagnostic));
  }

  JsonDocument& document_;
  Diagnostics& diagnostics_;
  const int max_depth_;
  const char* const begin_;
  const char* const end_;
  const char* token_end_;  // of the last token heard of
  const char* reached_;    // how far the parser has read
  std::vector<OpenContainer> open_;
  std::string_view key_;
  uint32_t key_offset_ = 0;
};

absl::StatusOr<JsonDocument> JsonDocument::Parse(std::string text, std::string file,
                                                 const JsonLimits& limits) {
  const int64_t max_bytes = std::min(limits.max_bytes, JsonLimits().max_bytes);
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return BadInputError(
        StrCat(file, ": JSON of ", text.size(), " bytes; at most ", max_bytes, " are read"));
  }
  JsonDocument document;
  document.text_ = std::make_unique<const std::string>(std::move(text));
  document.file_ = std::move(file);
  document.offset_in_file_ = limits.offset_in_file;
  Diagnostics diagnostics;
  JsonDocumentBuilder(document, limits.max_depth, diagnostics).Build();
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return document;
}

absl::StatusOr<JsonDocument> JsonDocument::Load(const std::string& path, const JsonLimits& limits) {
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, limits.max_bytes));
  return Parse(std::move(text), path, limits);
}

const JsonValue* JsonDocument::FirstChild(const JsonValue& value) const {
  const bool container = value.kind == JsonKind::kArray || value.kind == JsonKind::kObject;
  return container && value.size > 0 ? &value + 1 : nullptr;
}

const JsonValue* JsonDocument::Next(const JsonValue& value) const {
  return value.next >= 0 ? &values_[value.next] : nullptr;
}

const JsonValue* JsonDocument::Parent(const JsonValue& value) const {
  return value.parent >= 0 ? &values_[value.parent] : nullptr;
}

const JsonValue* JsonDocument::Find(const JsonValue& object, std::string_view key) const {
  if (object.kind != JsonKind::kObject) return nullptr;
  const JsonValue* member = FirstChild(object);
  while (member != nullptr && member->key() != key) member = Next(*member);
  return member;
}

FilePosition JsonDocument::PositionOf(int64_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const auto clamp = [](int64_t n) {
    return static_cast<int32_t>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max()));
  };
  return {clamp(after - line_starts_.begin()), clamp(offset - after[-1] + 1)};
}

void JsonDocument::SetPlace(Diagnostic& diagnostic, int64_t offset) const {
  if (offset_in_file_ >= 0) {
    diagnostic.offset = offset_in_file_ + offset;
  } else {
    diagnostic.position = PositionOf(offset);
  }
}

std::string_view JsonDocument::RawText(const JsonValue& value) const {
  return std::string_view(*text_).substr(value.offset, value.text_size);
}

std::string JsonDocument::PointerTo(const JsonValue& value) const {
  std::vector<std::string> parts;
  for (const JsonValue* v = &value; v->parent >= 0; v = Parent(*v)) {
    const JsonValue& parent = *Parent(*v);
    if (parent.kind == JsonKind::kArray) {
      int64_t index = 0;
      for (const JsonValue* c = FirstChild(parent); c != v; c = Next(*c)) ++index;
      parts.push_back(StrCat("/", index));
    } else {
      parts.push_back(
          StrCat("/", absl::StrReplaceAll(AbslView(v->key()), {{"~", "~0"}, {"/", "~1"}})));
    }
  }
  std::string pointer;
  for (size_t i = parts.size(); i-- > 0;) pointer += parts[i];
  return pointer;
}

const JsonValue& JsonDocument::FollowPointer(std::string_view pointer) const {
  const JsonValue* at = &root();
  while (pointer.starts_with('/')) {
    const std::string_view part = pointer.substr(1, pointer.find('/', 1) - 1);
    pointer.remove_prefix(part.size() + 1);
    const JsonValue* child = FirstChild(*at);
    if (at->kind == JsonKind::kArray) {
      int64_t index = 0;
      if (!absl::SimpleAtoi(AbslView(part), &index)) break;
      while (child != nullptr && index-- > 0) child = Next(*child);
    } else {
      child = Find(*at, absl::StrReplaceAll(AbslView(part), {{"~1", "/"}, {"~0", "~"}}));
    }
    if (child == nullptr) break;
    at = child;
  }
  return *at;
}

std::string JsonDocument::CompactText(const JsonValue& value) const {
  std::string text;
  // A value's subtree is the run of values that begin before it ends; `open` are the containers
  // that the current one lies in.
  std::vector<const JsonValue*> open;
  const uint32_t end = value.offset + value.text_size;
  const JsonValue* const last = values_.data() + values_.size();
  for (const JsonValue* v = &value; v != last && v->offset < end; ++v) {
    while (!open.empty() && v->parent != static_cast<int32_t>(open.back() - values_.data())) {
      text += open.back()->kind == JsonKind::kArray ? ']' : '}';
      open.pop_back();
    }
    if (!open.empty()) {
      if (v != open.back() + 1) text += ',';
      if (open.back()->kind == JsonKind::kObject) {
        AppendJsonString(&text, v->key());
        text += ':';
      }
    }
    if (v->kind == JsonKind::kString) {
      AppendJsonString(&text, v->string());
    } else if (v->kind == JsonKind::kArray || v->kind == JsonKind::kObject) {
      text += v->kind == JsonKind::kArray ? '[' : '{';
      open.push_back(v);
    } else {
      text += RawText(*v);
    }
  }
  for (size_t i = open.size(); i-- > 0;) text += open[i]->kind == JsonKind::kArray ? ']' : '}';
  return text;
}

}  // namespace millrace
