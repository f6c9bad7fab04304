// The target file, "millrace-target" 1.0:
//
//   {"format": "millrace-target", "version": "1.0", "device_kind": "cpu", "answers": [
//     {"op": "MatMul", "attrs": {}, "inputs": [{"dtype": "f32", "shape": [8, 64]}, null],
//      "outputs": [{"dtype": "f32", "shape": [8, 8]}], "known": {},
//      "variants": [{"name": "reference", "in_layouts": ["strided"], ...}]}]}
//
// "known" has the elements of constant operands, by the operand's place: {"1": [0, -1]}; it is left
// out when there are none. Answers are sorted by what was asked; a variant's fields that have their
// default are left out.
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/graph_json_parts.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/strings.h"
#include "graph/target.h"

namespace millrace {
namespace {

// --- Reading ------------------------------------------------------------------------------------

std::vector<std::optional<TensorType>> ReadTypes(const JsonReader& reader) {
  std::vector<std::optional<TensorType>> types;
  reader.ForEachElement([&](const JsonReader& element) {
    if (element.IsNull()) {
      types.push_back(std::nullopt);
    } else if (const auto read = ReadType(element, {}, /*may_be_bounded=*/false)) {
      types.push_back(read->type);
    }
  });
  return types;
}

std::vector<Layout> ReadLayouts(const JsonReader& reader) {
  std::vector<Layout> layouts;
  for (const std::string& name : ReadStrings(reader)) {
    if (const std::optional<Layout> layout = ParseLayout(name)) {
      layouts.push_back(*layout);
    } else {
      reader.Error(StrCat("unknown layout '", name, "'"),
                   "\"strided\", \"nhwc\", \"nchw8c\", \"nchw16c\" or \"packed\"");
    }
  }
  return layouts;
}

void ReadFlag(const std::optional<JsonReader>& member, bool* to) {
  if (!member.has_value()) return;
  if (const auto value = member->Bool()) *to = *value;
}

// Work and times: finite, not negative.
void ReadAmount(const std::optional<JsonReader>& member, double* to) {
  if (!member.has_value()) return;
  const std::optional<double> value = member->Number();
  if (!value.has_value()) return;
  if (*value >= 0 && *value <= std::numeric_limits<double>::max()) {
    *to = *value;
  } else {
    member->Error("out of range", "0 or more", member->Describe());
  }
}

KernelVariant ReadVariant(const JsonReader& reader) {
  enum {
    kName,
    kIn,
    kOut,
    kStrided,
    kScratch,
    kPackedBytes,
    kPrepack,
    kEpilogues,
    kThreads,
    kOnHost,
    kCapturable,
    kDeterministic,
    kFlops,
    kBytes,
    kTime,
    kNumKeys
  };
  static constexpr std::string_view kKeys[kNumKeys] = {
      "name",    "in_layouts", "out_layouts", "strided",       "scratch_bytes", "packed_bytes", "prepack",
      "epilogues", "threads",   "on_host",     "capturable", "deterministic", "flops", "bytes",
      "time_us"};
  KernelVariant v;
  std::optional<JsonReader> m[kNumKeys];
  if (!reader.Members(kKeys, m)) return v;
  for (const int key : {kName, kIn, kOut}) {
    if (!m[key].has_value()) reader.Error(StrCat("key \"", kKeys[key], "\" is missing"));
  }
  if (m[kName].has_value()) v.name = m[kName]->String().value_or("");
  if (m[kIn].has_value()) v.in_layouts = ReadLayouts(*m[kIn]);
  if (m[kOut].has_value()) v.out_layouts = ReadLayouts(*m[kOut]);
  ReadFlag(m[kStrided], &v.strided);
  if (m[kScratch].has_value()) v.scratch_bytes = m[kScratch]->Int(0, kMaxBytes).value_or(0);
  if (m[kPackedBytes].has_value()) {
    v.packed_bytes = m[kPackedBytes]->Int(0, kMaxBytes).value_or(0);
  }
  if (m[kPrepack].has_value()) {
    m[kPrepack]->ForEachElement([&](const JsonReader& input) {
      if (const auto i = input.Int(0, 1 << 20)) v.prepack.push_back(static_cast<int>(*i));
    });
  }
  if (m[kEpilogues].has_value()) v.epilogues = ReadStrings(*m[kEpilogues]);
  if (m[kThreads].has_value())
    v.threads = static_cast<int>(m[kThreads]->Int(0, 1 << 20).value_or(0));
  ReadFlag(m[kOnHost], &v.on_host);
  ReadFlag(m[kCapturable], &v.capturable);
  ReadFlag(m[kDeterministic], &v.deterministic);
  ReadAmount(m[kFlops], &v.flops);
  ReadAmount(m[kBytes], &v.bytes);
  ReadAmount(m[kTime], &v.time_us);
  return v;
}

std::map<int, std::vector<int64_t>> ReadKnown(const JsonReader& reader) {
  std::map<int, std::vector<int64_t>> known;
  reader.ForEachMember([&](std::string_view key, const JsonReader& elements) {
    int input = -1;
    if (!absl::SimpleAtoi(AbslView(key), &input) || input < 0 || key != StrCat(input)) {
      return elements.Error("not the place of an operand", "\"0\", \"1\", ...",
                            StrCat("\"", key, "\""));
    }
    std::vector<int64_t>& list = known[input];
    elements.ForEachElement([&](const JsonReader& element) {
      const auto value =
          element.Int(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
      if (value.has_value()) list.push_back(*value);
    });
  });
  return known;
}

NodeQuery ReadQuery(const JsonReader& reader) {
  NodeQuery query;
  if (const auto op = reader.Required("op")) query.op = op->String().value_or("");
  if (const auto attrs = reader.Optional("attrs")) {
    query.attrs = ReadAttrs(*attrs).value_or(Attrs());
  }
  if (const auto inputs = reader.Required("inputs")) query.inputs = ReadTypes(*inputs);
  if (const auto outputs = reader.Required("outputs")) query.outputs = ReadTypes(*outputs);
  if (const auto known = reader.Optional("known")) query.known = ReadKnown(*known);
  return query;
}

void ReadAnswer(const JsonReader& reader, SavedTarget& target) {
  reader.OnlyKeys({"op", "attrs", "inputs", "outputs", "known", "variants"});
  NodeQuery query = ReadQuery(reader);
  std::vector<KernelVariant> variants;
  if (const auto list = reader.Required("variants")) {
    list->ForEachElement([&](const JsonReader& v) { variants.push_back(ReadVariant(v)); });
  }
  if (!target.Add(std::move(query), std::move(variants))) {
    reader.Error("the same question is answered twice");
  }
}

// --- Writing ------------------------------------------------------------------------------------

void AppendTypes(std::string* to, std::string_view key,
                 const std::vector<std::optional<TensorType>>& types) {
  StrAppend(to, ", \"", key, "\": [");
  for (size_t i = 0; i < types.size(); ++i) {
    if (i > 0) to->append(", ");
    if (types[i].has_value()) {
      AppendType(to, *types[i], nullptr, /*bounded=*/false);
    } else {
      to->append("null");
    }
  }
  to->push_back(']');
}

void AppendKnown(std::string* to, const std::map<int, std::vector<int64_t>>& known) {
  std::string_view separator = ", \"known\": {";
  for (const auto& [input, elements] : known) {
    StrAppend(to, separator, "\"", input, "\": [", absl::StrJoin(elements, ", "), "]");
    separator = ", ";
  }
  if (!known.empty()) to->push_back('}');
}

// Without the closing brace.
void AppendQuery(std::string* to, const NodeQuery& query) {
  StrAppend(to, "{\"op\": ", JsonString(query.op), ", \"attrs\": ");
  AppendAttrs(to, query.attrs);
  AppendTypes(to, "inputs", query.inputs);
  AppendTypes(to, "outputs", query.outputs);
  AppendKnown(to, query.known);
}

void AppendLayouts(std::string* to, std::string_view key, const std::vector<Layout>& layouts) {
  std::vector<std::string> names;
  for (const Layout layout : layouts) names.emplace_back(LayoutName(layout));
  StrAppend(to, ", \"", key, "\": ");
  AppendStrings(to, names);
}

void AppendFlag(std::string* to, std::string_view key, bool value, bool default_value) {
  if (value != default_value) StrAppend(to, ", \"", key, "\": ", value ? "true" : "false");
}

void AppendAmount(std::string* to, std::string_view key, double value) {
  if (value != 0) StrAppend(to, ", \"", key, "\": ", JsonNumber(value));
}

void AppendVariant(std::string* to, const KernelVariant& v) {
  StrAppend(to, "{\"name\": ", JsonString(v.name));
  AppendLayouts(to, "in_layouts", v.in_layouts);
  AppendLayouts(to, "out_layouts", v.out_layouts);
  AppendFlag(to, "strided", v.strided, false);
  if (v.scratch_bytes != 0) StrAppend(to, ", \"scratch_bytes\": ", v.scratch_bytes);
  if (v.packed_bytes != 0) StrAppend(to, ", \"packed_bytes\": ", v.packed_bytes);
  if (!v.prepack.empty()) {
    std::string_view separator = ", \"prepack\": [";
    for (const int input : v.prepack) {
      StrAppend(to, separator, input);
      separator = ", ";
    }
    to->push_back(']');
  }
  if (!v.epilogues.empty()) {
    to->append(", \"epilogues\": ");
    AppendStrings(to, v.epilogues);
  }
  if (v.threads != 0) StrAppend(to, ", \"threads\": ", v.threads);
  AppendFlag(to, "on_host", v.on_host, false);
  AppendFlag(to, "capturable", v.capturable, true);
  AppendFlag(to, "deterministic", v.deterministic, true);
  AppendAmount(to, "flops", v.flops);
  AppendAmount(to, "bytes", v.bytes);
  AppendAmount(to, "time_us", v.time_us);
  to->push_back('}');
}

}  // namespace

std::string QueryToJson(const NodeQuery& query) {
  std::string json;
  AppendQuery(&json, query);
  json.push_back('}');
  return json;
}

absl::StatusOr<NodeQuery> ParseQueryJson(std::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::string(json), "query"));
  Diagnostics diagnostics;
  const JsonReader root(document, diagnostics);
  root.OnlyKeys({"op", "attrs", "inputs", "outputs", "known"});
  NodeQuery query = ReadQuery(root);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return query;
}

std::string SavedTarget::ToJson() const {
  std::string out =
      StrCat("{\n  \"format\": \"millrace-target\",\n  \"version\": \"1.0\",\n  \"device_kind\": ",
             JsonString(device_kind_), ",\n  \"answers\": [");
  std::string_view separator = "\n    ";
  for (const auto& [key, answer] : answers_) {
    const auto& [query, variants] = answer;
    out += separator;
    AppendQuery(&out, query);
    out += ", \"variants\": [";
    std::string_view between = "\n      ";
    for (const KernelVariant& variant : variants) {
      out += between;
      AppendVariant(&out, variant);
      between = ",\n      ";
    }
    out += "]}";
    separator = ",\n    ";
  }
  out += answers_.empty() ? "]\n}\n" : "\n  ]\n}\n";
  return out;
}

absl::StatusOr<SavedTarget> SavedTarget::Parse(std::string_view json, std::string_view file) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::string(json), std::string(file)));
  Diagnostics diagnostics;
  const JsonReader root(document, diagnostics);
  if (!root.HasFormat("millrace-target")) return diagnostics.ToStatus();
  root.OnlyKeys({"format", "version", "device_kind", "answers"});
  SavedTarget target("");
  if (const auto kind = root.Required("device_kind")) {
    target.device_kind_ = kind->String().value_or("");
  }
  if (const auto answers = root.Required("answers")) {
    answers->ForEachElement([&](const JsonReader& answer) { ReadAnswer(answer, target); });
  }
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return target;
}

}  // namespace millrace
