// Types and attributes in JSON.
#include <algorithm>
#include <limits>

#include "graph/graph_json.h"
#include "graph/graph_json_parts.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

const std::vector<std::string>& DTypeNames() {
  static const auto& names = *[] {
    auto* list = new std::vector<std::string>;
    for (int i = 0; i < kNumDTypes; ++i) list->emplace_back(DTypeName(static_cast<DType>(i)));
    return list;
  }();
  return names;
}

// What other programs' names for element types are called here; "" for others.
std::string_view DTypeElsewhere(std::string_view name) {
  static constexpr std::string_view kNames[][2] = {
      {"float", "f32"}, {"float32", "f32"}, {"double", "f64"},  {"float64", "f64"},
      {"half", "f16"},  {"float16", "f16"}, {"fp16", "f16"},    {"bfloat16", "bf16"},
      {"int8", "i8"},   {"uint8", "u8"},    {"int16", "i16"},   {"uint16", "u16"},
      {"int32", "i32"}, {"int", "i32"},     {"uint32", "u32"},  {"int64", "i64"},
      {"long", "i64"},  {"uint64", "u64"},  {"boolean", "bool"}};
  for (const auto& [elsewhere, here] : kNames) {
    if (name == elsewhere) return here;
  }
  return "";
}

std::optional<DType> ReadDType(const JsonReader& reader) {
  if (!reader.IsString()) {
    reader.Error("wrong kind of value", "a dtype like \"f32\"", reader.Describe());
    return std::nullopt;
  }
  const std::string_view name = reader.value().string();
  const std::optional<DType> dtype = ParseDType(name);
  if (!dtype.has_value() && !reader.IsCountedOnly()) {
    std::string known;
    for (const std::string& dtype_name : DTypeNames()) {
      StrAppend(&known, known.empty() ? "one of " : ", ", dtype_name);
    }
    const std::string_view alias = DTypeElsewhere(name);
    reader.Error(
        "unknown dtype", known, reader.Describe(),
        alias.empty() ? DidYouMean(name, DTypeNames()) : StrCat("did you mean '", alias, "'?"));
  }
  return dtype;
}

std::optional<int64_t> ReadDim(const JsonReader& reader, const SymbolValues& symbols) {
  const bool open =
      reader.IsNull() || (reader.value().kind == JsonKind::kInt && reader.value().integer < 0);
  if (open) {
    reader.Error("not a dim", StrCat("an integer from 0 to ", kMaxBytes), reader.Describe(),
                 "a size that is open is a symbol: \"N\", declared in \"symbols\"");
    return std::nullopt;
  }
  if (!reader.IsString()) return reader.Int(0, kMaxBytes);
  const bool shown = !reader.diagnostics().full();
  const absl::StatusOr<int64_t> dim = EvaluateDim(reader.value().string(), symbols, shown);
  if (dim.ok()) return *dim;
  reader.Error(StdView(dim.status().message()));
  return std::nullopt;
}

// A dim written as a number, even if in quotes, says no more than its value.
bool IsLiteral(std::string_view dim) {
  return dim.find_first_not_of("0123456789") == std::string_view::npos;
}

// False when a dim is at fault. Fills type.shape and dims.
bool ReadShape(const JsonReader& reader, const SymbolValues& symbols, TypeAsWritten& to) {
  if (reader.IsArray() && reader.value().size > kMaxRank) {
    reader.Error("too many dims", StrCat("at most ", kMaxRank), reader.Describe());
    return false;
  }
  bool ok = true, symbolic = false;
  ok &= reader.ForEachElement([&](const JsonReader& element) {
    const std::optional<int64_t> dim = ReadDim(element, symbols);
    ok &= dim.has_value();
    symbolic |= element.IsString() && !IsLiteral(element.value().string());
    if (dim.has_value()) to.type.shape.push_back(*dim);
  });
  if (!ok || !symbolic) return ok;
  reader.ForEachElement([&](const JsonReader& element) {
    to.dims.push_back(element.IsString() ? std::string(element.value().string())
                                         : StrCat(element.value().integer));
  });
  return true;
}

bool IsNonFiniteName(std::string_view s) { return s == "nan" || s == "inf" || s == "-inf"; }

// --- Attributes ---------------------------------------------------------------------------------

std::optional<AttrValue> ReadAttrList(const JsonReader& reader) {
  const size_t size = reader.value().size;
  size_t ints = 0, numbers = 0, strings = 0;
  reader.ForEachElement([&](const JsonReader& e) {
    const bool is_int = e.value().kind == JsonKind::kInt;
    const bool non_finite = e.IsString() && IsNonFiniteName(e.value().string());
    ints += is_int;
    numbers += is_int || non_finite || e.value().kind == JsonKind::kDouble;
    strings += e.IsString();
  });
  if (ints == size) {
    std::vector<int64_t> list;
    list.reserve(size);
    reader.ForEachElement([&](const JsonReader& e) { list.push_back(e.value().integer); });
    return list;
  }
  if (numbers == size) {
    std::vector<double> list;
    list.reserve(size);
    reader.ForEachElement([&](const JsonReader& e) { list.push_back(*e.Number()); });
    return list;
  }
  if (strings == size) {
    std::vector<std::string> list;
    list.reserve(size);
    reader.ForEachElement([&](const JsonReader& e) { list.emplace_back(e.value().string()); });
    return list;
  }
  reader.Error("not an attribute", "a list of 64-bit integers, of numbers or of strings",
               "a list of other or mixed elements");
  return std::nullopt;
}

std::optional<AttrValue> ReadAttr(const JsonReader& reader) {
  const JsonValue& value = reader.value();
  switch (value.kind) {
    case JsonKind::kBool:
      return value.boolean;
    case JsonKind::kInt:
      return value.integer;
    case JsonKind::kDouble:
      return value.number;
    case JsonKind::kString:
      if (IsNonFiniteName(value.string())) return *reader.Number();
      return std::string(value.string());
    case JsonKind::kArray:
      return ReadAttrList(reader);
    default:
      break;
  }
  reader.Error("not an attribute", "a bool, a signed 64-bit integer, a number, a string or a list",
               reader.Describe());
  return std::nullopt;
}

struct AttrAppender {
  std::string* to;

  void operator()(bool value) { to->append(value ? "true" : "false"); }
  void operator()(int64_t value) { StrAppend(to, value); }
  void operator()(double value) { AppendJsonNumber(to, value); }
  void operator()(const std::string& value) { AppendJsonString(to, value); }
  template <typename T>
  void operator()(const std::vector<T>& list) {
    to->push_back('[');
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) to->append(", ");
      (*this)(list[i]);
    }
    to->push_back(']');
  }
};

}  // namespace

std::optional<TypeAsWritten> ReadType(const JsonReader& reader, const SymbolValues& symbols,
                                      bool may_be_bounded) {
  static constexpr std::string_view kKeys[] = {"dtype", "shape", "bounded"};
  std::optional<JsonReader> members[3];
  if (!reader.Members(kKeys, members, /*extensions=*/false)) return std::nullopt;
  const auto& [dtype, shape, bounded] = members;
  if (!dtype.has_value()) reader.Error("key \"dtype\" is missing");
  if (!shape.has_value()) reader.Error("key \"shape\" is missing");
  if (!dtype.has_value() || !shape.has_value()) return std::nullopt;

  TypeAsWritten result;
  const std::optional<DType> element = ReadDType(*dtype);
  const bool shape_ok = ReadShape(*shape, symbols, result);
  if (bounded.has_value()) {
    const std::optional<bool> value = bounded->Bool();
    if (!value.has_value()) return std::nullopt;
    if (*value && !may_be_bounded) {
      bounded->Error("only inputs and results may have dims that are bounds");
      return std::nullopt;
    }
    result.bounded = *value;
  }
  if (!element.has_value() || !shape_ok) return std::nullopt;
  result.type.dtype = *element;
  if (!CheckedByteSize(result.type).has_value()) {
    shape->Error("the type is too large", StrCat("at most ", kMaxBytes, " bytes"),
                 ToString(result.type));
    return std::nullopt;
  }
  return result;
}

void AppendType(std::string* to, const TensorType& type, const std::vector<std::string>* dims,
                bool bounded) {
  StrAppend(to, "{\"dtype\": \"", DTypeName(type.dtype), "\", \"shape\": [");
  const bool as_written = dims != nullptr && static_cast<int>(dims->size()) == type.shape.rank();
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (i > 0) to->append(", ");
    const std::string& dim = as_written ? (*dims)[i] : "";
    if (IsLiteral(dim)) {
      StrAppend(to, type.shape[i]);
    } else {
      AppendJsonString(to, dim);
    }
  }
  StrAppend(to, "]", bounded ? ", \"bounded\": true" : "", "}");
}

std::optional<Attrs> ReadAttrs(const JsonReader& reader) {
  constexpr uint32_t kMaxAttrs = 1024;  // few: they are kept in a sorted vector
  if (reader.IsObject() && reader.value().size > kMaxAttrs) {
    reader.Error("too many attributes", StrCat("at most ", kMaxAttrs), StrCat(reader.value().size));
    return std::nullopt;
  }
  Attrs attrs;
  bool ok = true;
  ok &= reader.ForEachMember([&](std::string_view name, const JsonReader& member) {
    if (name.empty()) member.Error("an attribute has no name");
    std::optional<AttrValue> value = ReadAttr(member);
    ok &= value.has_value() && !name.empty();
    if (value.has_value()) attrs.Set(name, *std::move(value));
  });
  if (!ok) return std::nullopt;
  return attrs;
}

void AppendAttrs(std::string* to, const Attrs& attrs) {
  to->push_back('{');
  std::string_view separator = "";
  for (const auto& [name, value] : attrs) {
    to->append(separator);
    AppendJsonString(to, name);
    to->append(": ");
    std::visit(AttrAppender{to}, value);
    separator = ", ";
  }
  to->push_back('}');
}

std::vector<std::string> ReadStrings(const JsonReader& reader) {
  std::vector<std::string> strings;
  reader.ForEachElement([&](const JsonReader& element) {
    if (auto s = element.String()) strings.push_back(*std::move(s));
  });
  return strings;
}

void AppendStrings(std::string* to, const std::vector<std::string>& strings) {
  AttrAppender{to}(strings);
}

}  // namespace millrace
