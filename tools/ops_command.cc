// `millrace ops`: the operators there are, or all there is to know about one.
#include "absl/strings/str_join.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/cost_model.h"
#include "tools/attr_text.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/op_samples.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct OpsOptions {
  std::string name;
  bool json = false;
};

std::string OperandList(const std::vector<OperandSpec>& operands) {
  return absl::StrJoin(operands, ", ", [](std::string* out, const OperandSpec& operand) {
    StrAppend(out, operand.name, operand.variadic ? "..." : "", operand.optional ? "?" : "");
  });
}

std::string Signature(const OpDef& op) {
  return StrCat("(", OperandList(op.inputs), ") -> ", OperandList(op.outputs));
}

std::string DefaultText(const AttrSpec& attr) {
  if (attr.required) return "required";
  return attr.default_value.has_value() ? AttrText(*attr.default_value) : "optional";
}

std::vector<std::string> TypeNames(const OperandSpec& operand) {
  std::vector<std::string> names;
  for (DType dtype : operand.dtypes) names.emplace_back(DTypeName(dtype));
  return names;
}

std::string OperandTypes(const OperandSpec& operand) {
  const std::string list = absl::StrJoin(TypeNames(operand), " ");
  if (operand.same_as.empty()) return list.empty() ? "any" : list;
  return list.empty() ? operand.same_as : StrCat(operand.same_as, ": ", list);
}

// What planners may assume, as words.
std::vector<std::string> TraitWords(const OpDef& op) {
  std::vector<std::string> words;
  for (const InPlacePair& pair : op.traits.in_place) {
    words.push_back(StrCat("output ", pair.output, " may overwrite input ", pair.input));
  }
  for (int input : op.traits.host_inputs) words.push_back(StrCat("input ", input, " on the host"));
  if (op.traits.control_flow != ControlFlow::kNone) words.push_back("control flow");
  if (op.traits.comm != CommKind::kNone) words.push_back("communication");
  if (op.traits.host_call) words.push_back("sizes known at run time");
  if (op.traits.has_effects) words.push_back("has effects");
  if (!op.traits.deterministic) words.push_back("not deterministic");
  return words;
}

// Types that share their list of kernels, with the list: ("f32", "simd, reference").
std::vector<std::pair<std::string, std::string>> KernelRows(const OpDef& op, const Target& target) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (DType dtype : SampleTypes(op)) {
    const std::string kernels = absl::StrJoin(SampleKernels(op, dtype, target), ", ");
    if (kernels.empty()) continue;
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&](const auto& row) { return row.second == kernels; });
    if (same == rows.end()) {
      rows.emplace_back(DTypeName(dtype), kernels);
    } else {
      StrAppend(&same->first, " ", DTypeName(dtype));
    }
  }
  return rows;
}

std::string OperandTable(std::string_view what, const std::vector<OperandSpec>& operands) {
  Table table({std::string(what), "", "types", ""});
  for (const OperandSpec& operand : operands) {
    const char* count = operand.variadic ? "any number" : operand.optional ? "optional" : "";
    table.Row({operand.name, count, OperandTypes(operand), operand.doc});
  }
  return table.empty() ? "" : "\n" + table.ToString("  ");
}

std::string DescribeOp(const OpDef& op, const Target& target) {
  std::string text = StrCat(op.name, Signature(op), "\n", op.doc, "\n",
                            OperandTable("input", op.inputs), OperandTable("output", op.outputs));
  Table attrs({"attribute", "kind", "default", ""});
  for (const AttrSpec& attr : op.attrs) {
    const std::string choices = absl::StrJoin(attr.choices, " | ");
    attrs.Row({attr.name, std::string(AttrKindName(attr.kind)), DefaultText(attr),
               StrCat(attr.doc, !attr.doc.empty() && !choices.empty() ? ": " : "", choices)});
  }
  if (!attrs.empty()) StrAppend(&text, "\n", attrs.ToString("  "));

  Table facts({"", ""});
  facts.Row({"tier", StrCat(op.tier)});
  if (!op.subgraphs.empty()) facts.Row({"graphs", absl::StrJoin(op.subgraphs, ", ")});
  facts.Row({"fusion", std::string(FusionClassName(op.fusion))});
  facts.Row({"gradient", op.gradient != nullptr ? "yes" : "no"});
  facts.Row({"sharding", op.sharding != nullptr ? "yes" : "replicated only"});
  const std::string traits = absl::StrJoin(TraitWords(op), "; ");
  if (!traits.empty()) facts.Row({"traits", traits});
  StrAppend(&text, "\n", facts.ToString("  "));

  Table kernels({"cpu kernels, best first", "for"});
  for (const auto& [types, names] : KernelRows(op, target)) kernels.Row({names, types});
  if (!kernels.empty()) StrAppend(&text, "\n", kernels.ToString("  "));
  return text;
}

Json OperandsToJson(const std::vector<OperandSpec>& operands) {
  Json list = Json::array();
  for (const OperandSpec& operand : operands) {
    list.push_back({{"name", operand.name},
                    {"types", TypeNames(operand)},
                    {"same_as", operand.same_as},
                    {"optional", operand.optional},
                    {"variadic", operand.variadic},
                    {"doc", operand.doc}});
  }
  return list;
}

Json ToJson(const OpDef& op, const Target& target) {
  Json attrs = Json::array(), kernels = Json::object();
  for (const AttrSpec& attr : op.attrs) {
    attrs.push_back({{"name", attr.name},
                     {"kind", std::string(AttrKindName(attr.kind))},
                     {"default", DefaultText(attr)},
                     {"choices", attr.choices},
                     {"doc", attr.doc}});
  }
  for (DType dtype : SampleTypes(op)) {
    kernels[std::string(DTypeName(dtype))] = SampleKernels(op, dtype, target);
  }
  return {{"name", op.name},
          {"doc", op.doc},
          {"tier", op.tier},
          {"inputs", OperandsToJson(op.inputs)},
          {"outputs", OperandsToJson(op.outputs)},
          {"attributes", std::move(attrs)},
          {"graphs", op.subgraphs},
          {"fusion", std::string(FusionClassName(op.fusion))},
          {"gradient", op.gradient != nullptr},
          {"sharding", op.sharding != nullptr},
          {"traits", TraitWords(op)},
          {"cpu_kernels", std::move(kernels)}};
}

absl::Status Ops(const OpsOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Target> cpu, MakeTarget("cpu"));
  std::vector<const OpDef*> ops;
  if (options.name.empty()) {
    for (const OpDef& op : AllOps()) ops.push_back(&op);
  } else {
    ops.push_back(FindOp(options.name));
    if (ops[0] == nullptr) {
      const std::string hint = DidYouMeanOp(options.name);
      return UsageError(StrCat("ops: no op is called '", options.name, "'; ",
                               hint.empty() ? "see millrace ops" : hint));
    }
  }
  if (options.json) {
    Json document = JsonHeader("millrace-ops");
    document["ops"] = Json::array();
    for (const OpDef* op : ops) document["ops"].push_back(ToJson(*op, *cpu));
    PrintJson(document);
  } else if (!options.name.empty()) {
    Print(DescribeOp(*ops[0], *cpu));
  } else {
    Table table({"op", "signature", "tier", "gradient", ""});
    for (const OpDef* op : ops) {
      table.Row({op->name, Signature(*op), StrCat(op->tier), op->gradient != nullptr ? "yes" : "no",
                 op->doc});
    }
    Print(table.ToString());
  }
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, OpsOptions& options) {
  list.Text("name", "OP", options.name, "Operator, such as Conv");
  list.Flag("--json", options.json, "Print as JSON");
}

}  // namespace

void AddOpsCommand(CommandLine& line) {
  AddCommand<OpsOptions>(line, "ops", "List operators, or describe one", Ops, DeclareOptions);
}

}  // namespace millrace
