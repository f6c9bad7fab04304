// JsonDocument: a JSON text as a tree that knows where each value stood. Built by nlohmann's SAX
// parser over a byte-counting iterator, so duplicate keys, depth and places are known; every JSON
// format of the project (graph, plan, machine, target, safetensors header) is read through it.
// Memory: 48 bytes a value beside the text; strings without escapes are views of the text.
// Parsing does not recurse. How our files spell what is written: graph/json_text.h.
#ifndef MILLRACE_GRAPH_JSON_DOCUMENT_H_
#define MILLRACE_GRAPH_JSON_DOCUMENT_H_

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/diagnostics.h"
#include "graph/status.h"

namespace millrace {

struct JsonLimits {
  int max_depth = 64;
  int64_t max_bytes = (int64_t{1} << 32) - 1;  // more is not possible
  // The text is part of a binary file, from this byte on: errors have byte offsets in that file
  // instead of line and column. -1: a text file.
  int64_t offset_in_file = -1;
};

// kInt: fits int64. kUint: above that, fits uint64. kDouble: written with '.' or an exponent.
enum class JsonKind : uint8_t { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };

// Node of the tree, in the document's arena, in the order of the text: the first child of a value
// follows it directly.
struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  int32_t parent = -1;
  int32_t next = -1;    // next sibling
  uint32_t size = 0;    // kArray, kObject: number of children; kString: bytes
  uint32_t offset = 0;  // of its text, in bytes
  uint32_t text_size = 0;
  uint32_t key_offset = 0;  // members: of the key's opening quote
  uint32_t key_size = 0;
  const char* key_chars = nullptr;
  union {
    int64_t integer;            // kInt
    uint64_t unsigned_integer;  // kUint
    double number = 0;          // kDouble
    const char* chars;          // kString
  };

  std::string_view key() const { return {key_chars, key_size}; }  // members of an object
  std::string_view string() const { return {chars, size}; }       // kString only
};

class JsonDocument {
 public:
  // Syntax errors, duplicate keys, excess depth, numbers that fit neither 64-bit integers nor
  // doubles: BadInputError with file:line:column. Integers never turn into doubles.
  static absl::StatusOr<JsonDocument> Parse(std::string text, std::string file,
                                            const JsonLimits& limits = {});
  static absl::StatusOr<JsonDocument> Load(const std::string& path, const JsonLimits& limits = {});

  const JsonValue& root() const { return values_[0]; }
  const JsonValue& at(int32_t index) const { return values_[index]; }
  // nullptr after the last one.
  const JsonValue* FirstChild(const JsonValue& value) const;
  const JsonValue* Next(const JsonValue& value) const;
  const JsonValue* Parent(const JsonValue& value) const;
  const JsonValue* Find(const JsonValue& object, std::string_view key) const;  // O(members)

  const std::string& file() const { return file_; }
  FilePosition PositionOf(int64_t offset) const;           // O(log lines)
  std::string_view RawText(const JsonValue& value) const;  // the value's own source text
  std::string PointerTo(const JsonValue& value) const;     // "/nodes/3/op"
  // Where a JSON pointer leads, or the last value on the way that exists.
  const JsonValue& FollowPointer(std::string_view pointer) const;
  // The value without white space, strings in canonical spelling, numbers as they were written.
  std::string CompactText(const JsonValue& value) const;

 private:
  friend class JsonDocumentBuilder;
  friend class JsonReader;
  // Where an error is, in the file that the text comes from.
  void SetPlace(Diagnostic& diagnostic, int64_t offset) const;

  std::unique_ptr<const std::string> text_;  // its characters stay put when the document moves
  std::string file_;
  int64_t offset_in_file_ = -1;
  std::vector<JsonValue> values_;
  std::deque<std::string> unescaped_;  // strings that had escapes
  std::vector<uint32_t> line_starts_;
};

// Cursor for reading a document with complete error reports: each accessor adds a Diagnostic (with
// place, pointer, expected and found) and gives nullopt instead of failing. Three pointers; copies
// are independent of each other.
class JsonReader {
 public:
  JsonReader(const JsonDocument& document, Diagnostics& diagnostics)
      : JsonReader(document, diagnostics, document.root()) {}
  JsonReader(const JsonDocument& document, Diagnostics& diagnostics, const JsonValue& value)
      : document_(&document), diagnostics_(&diagnostics), value_(&value) {}

  const JsonValue& value() const { return *value_; }
  const JsonDocument& document() const { return *document_; }
  Diagnostics& diagnostics() const { return *diagnostics_; }
  std::string_view key() const { return value_->key(); }
  std::string pointer() const { return document_->PointerTo(*value_); }
  FilePosition position() const { return document_->PositionOf(value_->offset); }

  void Error(std::string_view message, std::string_view expected = "", std::string_view found = "",
             std::string_view hint = "") const;
  // Once as many errors are kept as will be shown: counts one more and gives true. For callers whose
  // messages take time, which a hostile file could ask for a million times.
  bool IsCountedOnly() const;
  std::string Describe() const;  // "string \"abc\"", "array of 3", for "found"
  std::string Text() const;      // as written, cut where it is long

  std::optional<int64_t> Int(int64_t min, int64_t max) const;
  std::optional<uint64_t> Uint64() const;
  std::optional<double> Number() const;  // also "nan", "inf", "-inf" as strings
  std::optional<bool> Bool() const;
  std::optional<std::string> String(size_t max_length = 1024, bool allow_empty = false) const;
  bool IsArray() const { return value_->kind == JsonKind::kArray; }
  bool IsObject() const { return value_->kind == JsonKind::kObject; }
  bool IsString() const { return value_->kind == JsonKind::kString; }
  bool IsNull() const { return value_->kind == JsonKind::kNull; }
  // Calls `visit` on each element or member; an error (and nothing visited) for other kinds.
  bool ForEachElement(absl::FunctionRef<void(JsonReader)> visit) const;
  bool ForEachMember(absl::FunctionRef<void(std::string_view key, JsonReader)> visit) const;

  // Members by name. Required adds an error when absent; both when this is no object.
  std::optional<JsonReader> Required(std::string_view key) const;
  std::optional<JsonReader> Optional(std::string_view key) const;
  // An error with the nearest known name for each key that is neither known nor, unless
  // `extensions` is false, "x-...".
  void OnlyKeys(std::initializer_list<std::string_view> known, bool extensions = true) const;

  // "format" is `format` and "version" is "<major>.<any>"; reading on makes sense only if so.
  bool HasFormat(std::string_view format, int64_t major = 1) const;

  // The members named in `keys`, nullopt where absent, found in one pass; an error for each other
  // key, as OnlyKeys. False (with an error) when this is no object.
  template <size_t N>
  bool Members(const std::string_view (&keys)[N], std::optional<JsonReader> (&members)[N],
               bool extensions = true) const {
    return FindMembers(keys, N, members, extensions);
  }

 private:
  bool FindMembers(const std::string_view* keys, size_t count, std::optional<JsonReader>* members,
                   bool extensions) const;
  void UnknownKey(const JsonValue& member, const std::string_view* keys, size_t count,
                  bool extensions) const;
  void AddError(uint32_t offset, std::string_view message, std::string_view expected,
                std::string_view found, std::string_view hint) const;
  JsonReader At(const JsonValue& value) const { return {*document_, *diagnostics_, value}; }

  const JsonDocument* document_;
  Diagnostics* diagnostics_;
  const JsonValue* value_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_JSON_DOCUMENT_H_
