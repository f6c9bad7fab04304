#include "ops/signature.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_join.h"
#include "graph/strings.h"

namespace millrace {
namespace {

const AttrSpec* FindAttrSpec(const OpDef& op, std::string_view name) {
  for (const AttrSpec& spec : op.attrs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

AttrKind KindOf(const AttrValue& value) { return static_cast<AttrKind>(value.index()); }
static_assert(std::is_same_v<std::variant_alternative_t<0, AttrValue>, bool> &&
              std::is_same_v<std::variant_alternative_t<1, AttrValue>, int64_t> &&
              std::is_same_v<std::variant_alternative_t<2, AttrValue>, double> &&
              std::is_same_v<std::variant_alternative_t<3, AttrValue>, std::string> &&
              std::is_same_v<std::variant_alternative_t<4, AttrValue>, std::vector<int64_t>> &&
              std::is_same_v<std::variant_alternative_t<5, AttrValue>, std::vector<double>>);

// `value` as `kind` where that loses nothing: JSON does not tell 1 from 1.0, nor whose empty list
// an empty list is; ONNX writes flags as 0 and 1; one string may stand for a list of one.
std::optional<AttrValue> Convert(const AttrValue& value, AttrKind kind) {
  if (const auto* i = std::get_if<int64_t>(&value)) {
    if (kind == AttrKind::kFloat) return static_cast<double>(*i);
    if (kind == AttrKind::kBool && (*i == 0 || *i == 1)) return *i == 1;
  }
  if (const auto* s = std::get_if<std::string>(&value);
      s != nullptr && kind == AttrKind::kStrings) {
    return std::vector<std::string>{*s};
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    if (kind == AttrKind::kFloats) return std::vector<double>(ints->begin(), ints->end());
    if (kind == AttrKind::kStrings && ints->empty()) return std::vector<std::string>();
  }
  return std::nullopt;
}

// "int 2", "string 'last'", "list of ints".
std::string DescribeAttr(const AttrValue& value) {
  constexpr size_t kMaxShown = 40;
  const std::string_view kind = AttrKindName(KindOf(value));
  if (const auto* i = std::get_if<int64_t>(&value)) return StrCat(kind, " ", *i);
  if (const auto* d = std::get_if<double>(&value)) return StrCat(kind, " ", *d);
  if (const auto* s = std::get_if<std::string>(&value)) {
    return StrCat(kind, " '", s->substr(0, kMaxShown), s->size() > kMaxShown ? "..." : "", "'");
  }
  return std::string(kind);
}

std::string JoinChoices(const std::vector<std::string>& choices) {
  return StrCat("one of '", absl::StrJoin(choices, "', '"), "'");
}

SignatureFault UnknownAttr(const OpDef& op, const std::string& name) {
  SignatureFault fault{.pointer = StrCat("/attrs/", name),
                       .message = StrCat("unknown attribute '", name, "'")};
  std::vector<std::string> names;
  for (const AttrSpec& spec : op.attrs) names.push_back(spec.name);
  fault.expected = names.empty() ? "no attributes" : StrCat("one of ", absl::StrJoin(names, ", "));
  fault.hint = DidYouMean(name, names);
  return fault;
}

std::string DTypeNames(const std::vector<DType>& dtypes) {
  return absl::StrJoin(dtypes, ", ",
                       [](std::string* out, DType d) { StrAppend(out, DTypeName(d)); });
}

// "1 input", "2 to 3 inputs", "at least 1 input".
std::string CountText(int min, int max, std::string_view noun) {
  const std::string_view plural = (max < 0 ? min : max) == 1 ? "" : "s";
  if (max < 0) return StrCat("at least ", min, " ", noun, plural);
  if (min == max) return StrCat(min, " ", noun, plural);
  return StrCat(min, " to ", max, " ", noun, plural);
}

void CheckCount(std::span<const OperandSpec> specs, int count, std::string_view noun,
                std::vector<SignatureFault>& faults) {
  int min = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].optional) min = static_cast<int>(i) + 1;
  }
  const bool variadic = !specs.empty() && specs.back().variadic;
  const int max = variadic ? -1 : static_cast<int>(specs.size());
  if (count >= min && (max < 0 || count <= max)) return;
  faults.push_back({.pointer = StrCat("/", noun, "s"),
                    .message = StrCat("wrong number of ", noun, "s"),
                    .expected = CountText(min, max, noun),
                    .found = StrCat(count)});
}

}  // namespace

void CheckAttrs(const OpDef& op, Attrs& attrs, std::vector<SignatureFault>& faults) {
  std::vector<std::pair<const AttrSpec*, AttrValue>> converted;
  for (const auto& [name, value] : attrs) {
    const AttrSpec* spec = FindAttrSpec(op, name);
    if (spec == nullptr) {
      faults.push_back(UnknownAttr(op, name));
      continue;
    }
    if (KindOf(value) != spec->kind) {
      std::optional<AttrValue> same = Convert(value, spec->kind);
      if (same.has_value()) {
        converted.emplace_back(spec, *std::move(same));
      } else {
        faults.push_back({.pointer = StrCat("/attrs/", name),
                          .message = StrCat("attribute '", name, "' has the wrong kind"),
                          .expected = std::string(AttrKindName(spec->kind)),
                          .found = DescribeAttr(value)});
      }
    } else if (!spec->choices.empty()) {
      const std::string& s = std::get<std::string>(value);
      if (std::find(spec->choices.begin(), spec->choices.end(), s) != spec->choices.end()) continue;
      faults.push_back({.pointer = StrCat("/attrs/", name),
                        .message = StrCat("attribute '", name, "' has no such choice"),
                        .expected = JoinChoices(spec->choices),
                        .found = StrCat("'", s, "'"),
                        .hint = DidYouMean(s, spec->choices)});
    }
  }
  for (auto& [spec, value] : converted) attrs.Set(spec->name, std::move(value));
  for (const AttrSpec& spec : op.attrs) {
    if (!spec.required || attrs.Find(spec.name) != nullptr) continue;
    faults.push_back({.pointer = "/attrs",
                      .message = StrCat("attribute '", spec.name, "' is missing"),
                      .expected = StrCat("'", spec.name, "': ", AttrKindName(spec.kind))});
  }
}

const OperandSpec* OperandAt(std::span<const OperandSpec> operands, int i) {
  if (i < static_cast<int>(operands.size())) return &operands[i];
  return !operands.empty() && operands.back().variadic ? &operands.back() : nullptr;
}

std::string OperandName(std::span<const OperandSpec> operands, int i) {
  const OperandSpec* spec = OperandAt(operands, i);
  if (spec == nullptr) return StrCat("#", i);
  if (!spec->variadic) return spec->name;
  return StrCat(spec->name, "[", i - static_cast<int>(operands.size()) + 1, "]");
}

void CheckOperandCounts(const OpDef& op, std::span<const TensorType* const> inputs, int num_outputs,
                        std::vector<SignatureFault>& faults) {
  CheckCount(op.inputs, static_cast<int>(inputs.size()), "input", faults);
  CheckCount(op.outputs, num_outputs, "output", faults);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandSpec* spec = OperandAt(op.inputs, static_cast<int>(i));
    // A variadic operand may be absent as a whole, but not left out in the middle.
    const bool may_lack = spec == nullptr || (spec->optional && !spec->variadic);
    if (inputs[i] != nullptr || may_lack) continue;
    faults.push_back({.pointer = StrCat("/inputs/", i),
                      .message = StrCat("operand '", OperandName(op.inputs, static_cast<int>(i)),
                                        "' may not be omitted")});
  }
}

void CheckOperandTypes(const OpDef& op, std::span<const TensorType* const> inputs,
                       std::vector<SignatureFault>& faults) {
  // For each letter, the first operand that had it.
  absl::InlinedVector<std::pair<const std::string*, int>, 4> first_of;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const OperandSpec* spec = OperandAt(op.inputs, i);
    if (inputs[i] == nullptr || spec == nullptr) continue;
    const DType dtype = inputs[i]->dtype;
    if (!spec->dtypes.empty() &&
        std::find(spec->dtypes.begin(), spec->dtypes.end(), dtype) == spec->dtypes.end()) {
      faults.push_back({.pointer = StrCat("/inputs/", i),
                        .message = StrCat("operand '", OperandName(op.inputs, i),
                                          "' has an element type the op does not take"),
                        .expected = DTypeNames(spec->dtypes),
                        .about_operands = true});
    }
    if (spec->same_as.empty()) continue;
    const auto first = std::find_if(first_of.begin(), first_of.end(),
                                    [&](const auto& f) { return *f.first == spec->same_as; });
    if (first == first_of.end()) {
      first_of.emplace_back(&spec->same_as, i);
    } else if (inputs[first->second]->dtype != dtype) {
      faults.push_back(
          {.pointer = StrCat("/inputs/", i),
           .message = StrCat("operands '", OperandName(op.inputs, first->second), "' and '",
                             OperandName(op.inputs, i), "' have different element types"),
           .expected = std::string(DTypeName(inputs[first->second]->dtype)),
           .hint = "a Cast makes them agree",
           .about_operands = true});
    }
  }
}

const Attrs& WithDefaults(const OpDef& op, const Attrs& attrs, Attrs& storage) {
  // The attributes of an empty list, per op of the list.
  static const std::vector<Attrs>& defaults = *new std::vector<Attrs>([] {
    std::vector<Attrs> all;
    for (const OpDef& each : AllOps()) {
      Attrs& filled = all.emplace_back();
      for (const AttrSpec& spec : each.attrs) {
        if (spec.default_value.has_value()) filled.Set(spec.name, *spec.default_value);
      }
    }
    return all;
  }());
  const size_t index = &op - AllOps().data();
  MILLRACE_CHECK(index < defaults.size());  // `op` is one of AllOps()
  if (attrs.empty()) return defaults[index];

  const Attrs* result = &attrs;
  for (const auto& [name, value] : defaults[index]) {
    if (result->Find(name) != nullptr) continue;
    if (result == &attrs) storage = attrs;
    storage.Set(name, value);
    result = &storage;
  }
  return *result;
}

}  // namespace millrace
