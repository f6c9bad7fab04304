// {"dims": [[64, "outer"], [768, "reduce"]],
//  "operands": [{"dtype": "f32", "offset": 0, "strides": [768, 1]}],
//  "instructions": [{"op": "load", "dtype": "f32", "args": [0]},
//                   {"op": "constant", "dtype": "f32", "value": 0.5}],
//  "outputs": [{"value": 1, "dtype": "f32", "offset": 0, "strides": [1, 0]}]}
#include <limits>

#include "graph/fused_program.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxOffset = kMaxBytes;

std::string StridesJson(const std::vector<int64_t>& strides) {
  std::string s = "[";
  for (size_t i = 0; i < strides.size(); ++i) StrAppend(&s, i > 0 ? "," : "", strides[i]);
  return s + "]";
}

std::string InstructionJson(const ScalarInstruction& i) {
  std::string s =
      StrCat("{\"op\":\"", ScalarOpName(i.op), "\",\"dtype\":\"", DTypeName(i.dtype), "\"");
  if (i.op == ScalarOp::kConstant) return StrCat(s, ",\"value\":", JsonNumber(i.constant), "}");
  const bool indexes = i.op == ScalarOp::kLoad || i.op == ScalarOp::kIndex;
  const int count = indexes ? 1 : Arity(i.op);
  const int32_t args[] = {i.a, i.b, i.c};
  s += ",\"args\":[";
  for (int k = 0; k < count; ++k) StrAppend(&s, k > 0 ? "," : "", args[k]);
  return s + "]}";
}

class Reader {
 public:
  FusedProgram Read(const JsonReader& json) {
    json.OnlyKeys({"dims", "operands", "instructions", "outputs"});
    ForEach(json, "dims", [this](const JsonReader& r) { ReadDim(r); });
    ForEach(json, "operands", [this](const JsonReader& r) { ReadOperand(r); });
    ForEach(json, "instructions", [this](const JsonReader& r) { ReadInstruction(r); });
    ForEach(json, "outputs", [this](const JsonReader& r) { ReadOutput(r); });
    return std::move(p_);
  }

 private:
  template <typename F>
  static void ForEach(const JsonReader& json, std::string_view key, F visit) {
    if (const auto list = json.Required(key)) list->ForEachElement(visit);
  }

  // A name of an enum; `parse` gives nullopt for unknown ones.
  template <typename F>
  static auto ReadName(const JsonReader& json, std::string_view what, F parse)
      -> decltype(parse(std::string_view())) {
    const std::optional<std::string> name = json.String();
    if (!name) return std::nullopt;
    const auto value = parse(*name);
    if (!value) json.Error(StrCat("unknown ", what, " '", *name, "'"));
    return value;
  }

  static DType ReadDType(const JsonReader& json) {
    const auto member = json.Required("dtype");
    if (!member) return DType::kF32;
    return ReadName(*member, "dtype", ParseDType).value_or(DType::kF32);
  }

  static void ReadPlace(const JsonReader& json, int64_t& offset, std::vector<int64_t>& strides) {
    if (const auto member = json.Optional("offset")) {
      offset = member->Int(0, kMaxOffset).value_or(0);
    }
    ForEach(json, "strides", [&](const JsonReader& r) {
      strides.push_back(r.Int(-kMaxOffset, kMaxOffset).value_or(0));
    });
  }

  void ReadDim(const JsonReader& json) {
    IndexDim dim;
    int i = 0;
    json.ForEachElement([&](const JsonReader& r) {
      if (i == 0) dim.size = r.Int(0, kMaxBytes).value_or(0);
      if (i == 1) dim.role = ReadName(r, "role", ParseDimRole).value_or(DimRole::kOuter);
      ++i;
    });
    if (i != 2) json.Error("a dim is a size and a role", "[64, \"outer\"]", json.Describe());
    p_.dims.push_back(dim);
  }

  void ReadOperand(const JsonReader& json) {
    json.OnlyKeys({"dtype", "offset", "strides"});
    FusedOperand operand;
    operand.dtype = ReadDType(json);
    ReadPlace(json, operand.offset, operand.strides);
    p_.operands.push_back(std::move(operand));
  }

  void ReadInstruction(const JsonReader& json) {
    json.OnlyKeys({"op", "dtype", "args", "value"});
    ScalarInstruction s;
    if (const auto op = json.Required("op")) {
      s.op = ReadName(*op, "scalar op", ParseScalarOp).value_or(ScalarOp::kConstant);
    }
    s.dtype = ReadDType(json);
    if (s.op == ScalarOp::kConstant) {
      if (const auto value = json.Required("value")) s.constant = value->Number().value_or(0);
    } else {
      int32_t* args[] = {&s.a, &s.b, &s.c};
      int count = 0;
      ForEach(json, "args", [&](const JsonReader& r) {
        const int64_t arg = r.Int(0, std::numeric_limits<int32_t>::max()).value_or(0);
        if (count < 3) *args[count] = static_cast<int32_t>(arg);
        ++count;
      });
      if (count > 3) json.Error("an instruction has at most 3 args");
    }
    p_.instructions.push_back(s);
  }

  void ReadOutput(const JsonReader& json) {
    json.OnlyKeys({"value", "dtype", "offset", "strides"});
    FusedOutput output;
    if (const auto value = json.Required("value")) {
      output.value =
          static_cast<int32_t>(value->Int(0, std::numeric_limits<int32_t>::max()).value_or(0));
    }
    output.dtype = ReadDType(json);
    ReadPlace(json, output.offset, output.strides);
    p_.outputs.push_back(std::move(output));
  }

  FusedProgram p_;
};

}  // namespace

std::string FusedProgramToJson(const FusedProgram& p) {
  std::string s = "{\"dims\":[";
  for (size_t i = 0; i < p.dims.size(); ++i) {
    StrAppend(&s, i > 0 ? "," : "", "[", p.dims[i].size, ",\"", DimRoleName(p.dims[i].role), "\"]");
  }
  s += "],\"operands\":[";
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const FusedOperand& o = p.operands[i];
    StrAppend(&s, i > 0 ? "," : "", "{\"dtype\":\"", DTypeName(o.dtype), "\",\"offset\":", o.offset,
              ",\"strides\":", StridesJson(o.strides), "}");
  }
  s += "],\"instructions\":[";
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    StrAppend(&s, i > 0 ? "," : "", InstructionJson(p.instructions[i]));
  }
  s += "],\"outputs\":[";
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const FusedOutput& o = p.outputs[i];
    StrAppend(&s, i > 0 ? "," : "", "{\"value\":", o.value, ",\"dtype\":\"", DTypeName(o.dtype),
              "\",\"offset\":", o.offset, ",\"strides\":", StridesJson(o.strides), "}");
  }
  return s + "]}";
}

absl::StatusOr<FusedProgram> ParseFusedProgramJson(std::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::string(json), "fused program"));
  Diagnostics diagnostics;
  FusedProgram program = Reader().Read(JsonReader(document, diagnostics));
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  MILLRACE_RETURN_IF_ERROR(VerifyFusedProgram(program));
  return program;
}

}  // namespace millrace
