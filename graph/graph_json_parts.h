// The pieces of the graph file that other files share or that stand for themselves: types with
// symbolic dims, attributes, data, symbols. Each reader adds its faults to the JsonReader's
// diagnostics and gives nullopt; each writer appends the one canonical spelling, on one line.
#ifndef MILLRACE_GRAPH_GRAPH_JSON_PARTS_H_
#define MILLRACE_GRAPH_GRAPH_JSON_PARTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/json_document.h"

namespace millrace {

using SymbolValues = std::map<std::string, int64_t>;

// --- Types: {"dtype": "f32", "shape": ["N", 784], "bounded": true} ------------------------------
struct TypeAsWritten {
  TensorType type;
  std::vector<std::string> dims;  // as written, when one of them is an expression; else empty
  bool bounded = false;
};
// `may_be_bounded`: params and constants may not.
std::optional<TypeAsWritten> ReadType(const JsonReader& reader, const SymbolValues& symbols,
                                      bool may_be_bounded);
// `dims` may be null.
void AppendType(std::string* to, const TensorType& type, const std::vector<std::string>* dims,
                bool bounded);

// --- Attributes: {"axis": 1, "alpha": 0.5, "perm": [0, 1]} --------------------------------------
// "nan", "inf" and "-inf" are numbers here, alone and in lists of numbers.
std::optional<Attrs> ReadAttrs(const JsonReader& reader);
void AppendAttrs(std::string* to, const Attrs& attrs);

// --- Data of params and constants ---------------------------------------------------------------
inline constexpr int64_t kMaxInlineElements = 65536;
std::optional<DataSource> ReadData(const JsonReader& reader, const TensorType& type);
// Inline tensors whose NaNs have a payload, or that are too large, are written as base64.
void AppendData(std::string* to, const DataSource& data);

// --- Symbols: {"N": {"min": 1, "max": 1024, "multiple_of": 4, "default": 8, "bound": 8}} --------
// `unbound` takes the complaints about --set, each a sentence with the file's name: a name the file
// lacks, a value out of range, a symbol without a value.
std::vector<Symbol> ReadSymbols(const std::optional<JsonReader>& reader, const std::string& file,
                                const SymbolValues& set, std::vector<std::string>& unbound);
void AppendSymbol(std::string* to, const Symbol& symbol, bool with_bound);

// --- The graph as a whole -----------------------------------------------------------------------
std::string ReadProducer(const JsonReader& reader);  // an object, kept as compact text
std::map<std::string, int64_t> ReadOpset(const JsonReader& reader);
Mesh ReadMesh(const JsonReader& reader);
std::vector<WeightFile> ReadWeightFiles(const JsonReader& reader);
std::vector<Extension> ReadExtensions(
    const JsonReader& reader);  // the "x-..." members of an object

// --- Lists --------------------------------------------------------------------------------------
// Elements that are strings, each at most 1024 bytes and not empty.
std::vector<std::string> ReadStrings(const JsonReader& reader);
void AppendStrings(std::string* to, const std::vector<std::string>& strings);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_GRAPH_JSON_PARTS_H_
