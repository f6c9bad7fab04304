// JsonDocument: a JSON text as a tree that knows where each value stood. Built by nlohmann's SAX
// parser over a byte-counting iterator, so duplicate keys, depth and places are known; every JSON
// format of the project (graph, plan, machine, target, safetensors header) is read through it.
// Memory: 48 bytes a value plus the text of its strings. Parsing does not recurse.
#ifndef MILLRACE_GRAPH_JSON_DOCUMENT_H_
#define MILLRACE_GRAPH_JSON_DOCUMENT_H_

#include <cstdint>
#include <deque>
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
  int64_t max_bytes = int64_t{4} << 30;
};

enum class JsonKind : uint8_t { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };

// Node of the tree, in the document's arena. Children are linked, in file order.
struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  int32_t next = -1;         // next sibling
  int32_t first_child = -1;
  int32_t num_children = 0;
  int64_t offset = 0;        // byte offset in the text
  union {
    int64_t integer;         // kInt; kUint holds values above 2^63-1, bit-cast
    double number = 0;
  };
  std::string_view string;   // kString
  std::string_view key;      // of an object's member
};

class JsonDocument {
 public:
  // Syntax errors, duplicate keys, excess depth: BadInputError with file:line:column.
  static absl::StatusOr<JsonDocument> Parse(std::string text, std::string file,
                                            const JsonLimits& limits = {});
  static absl::StatusOr<JsonDocument> Load(const std::string& path, const JsonLimits& limits = {});

  const JsonValue& root() const { return values_[0]; }
  const JsonValue& at(int32_t index) const { return values_[index]; }
  const JsonValue* Find(const JsonValue& object, std::string_view key) const;
  const std::string& file() const { return file_; }
  FilePosition PositionOf(int64_t offset) const;  // O(log lines)
  std::string_view RawText(const JsonValue& value) const;  // the value's own source text

 private:
  friend class JsonDocumentBuilder;
  std::string text_;
  std::string file_;
  std::vector<JsonValue> values_;
  std::vector<int64_t> value_ends_;
  std::deque<std::string> strings_;
  std::vector<int64_t> line_starts_;
};

// Cursor for reading a document with complete error reports: each accessor adds a Diagnostic (with
// place, pointer, expected and found) and gives nullopt instead of failing. Copies are cheap.
class JsonReader {
 public:
  JsonReader(const JsonDocument& document, Diagnostics& diagnostics);

  const JsonValue& value() const { return *value_; }
  std::string pointer() const;            // "/nodes/3/op"
  FilePosition position() const;

  void Error(std::string_view message, std::string_view expected = "", std::string_view found = "",
             std::string_view hint = "") const;
  std::string Describe() const;           // "string \"abc\"", "array of 3", for "found"

  std::optional<int64_t> Int(int64_t min, int64_t max) const;
  std::optional<double> Number() const;   // also "nan", "inf", "-inf" as strings
  std::optional<bool> Bool() const;
  std::optional<std::string> String(size_t max_length = 1024, bool allow_empty = false) const;
  bool IsArray() const { return value_->kind == JsonKind::kArray; }
  bool IsObject() const { return value_->kind == JsonKind::kObject; }
  bool IsNull() const { return value_->kind == JsonKind::kNull; }
  // Calls `visit` on each element or member; an error (and nothing visited) for other kinds.
  bool ForEachElement(absl::FunctionRef<void(JsonReader)> visit) const;
  bool ForEachMember(absl::FunctionRef<void(std::string_view key, JsonReader)> visit) const;

  // Members by name. Required adds an error when absent.
  std::optional<JsonReader> Required(std::string_view key) const;
  std::optional<JsonReader> Optional(std::string_view key) const;
  // An error with the nearest known name for each key that is neither known nor "x-...".
  void OnlyKeys(std::initializer_list<std::string_view> known) const;

 private:
  JsonReader(const JsonReader& parent, const JsonValue& value, std::string_view key, int64_t index);

  const JsonDocument* document_;
  Diagnostics* diagnostics_;
  const JsonValue* value_;
  const JsonReader* parent_ = nullptr;  // readers live on the stack, parents outlive children
  std::string_view key_;
  int64_t index_ = -1;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_JSON_DOCUMENT_H_
