#include "graph/fused_program.h"

#include <cmath>
#include <iterator>
#include <optional>

#include "graph/strings.h"

namespace millrace {
namespace {

struct OpInfo {
  std::string_view name;
  int arity;
};

constexpr OpInfo kOps[] = {
    {"load", 0},       {"constant", 0},   {"index", 0},         {"cast", 1},        {"neg", 1},
    {"abs", 1},        {"sign", 1},       {"exp", 1},           {"log", 1},         {"sqrt", 1},
    {"rsqrt", 1},      {"reciprocal", 1}, {"tanh", 1},          {"erf", 1},         {"sigmoid", 1},
    {"sin", 1},        {"cos", 1},        {"expm1", 1},         {"softplus", 1},    {"gelu", 1},
    {"gelu_tanh", 1},  {"floor", 1},      {"ceil", 1},          {"round", 1},       {"not", 1},
    {"is_nan", 1},     {"add", 2},        {"sub", 2},           {"mul", 2},         {"div", 2},
    {"min", 2},        {"max", 2},        {"pow", 2},           {"mod", 2},         {"and", 2},
    {"or", 2},         {"xor", 2},        {"equal", 2},         {"not_equal", 2},   {"less", 2},
    {"less_equal", 2}, {"greater", 2},    {"greater_equal", 2}, {"select", 3},      {"fma", 3},
    {"reduce_sum", 1}, {"reduce_max", 1}, {"reduce_min", 1},    {"reduce_prod", 1},
};
static_assert(std::size(kOps) == static_cast<size_t>(ScalarOp::kReduceProd) + 1);

bool IsLogic(ScalarOp op) { return op >= ScalarOp::kAnd && op <= ScalarOp::kXor; }
bool IsOfFloats(ScalarOp op) {
  return (op >= ScalarOp::kExp && op <= ScalarOp::kRound) || op == ScalarOp::kPow ||
         op == ScalarOp::kFma;
}

constexpr size_t kMaxFusedInstructions = 4096, kMaxFusedOperands = 256;

constexpr std::string_view kRoles[] = {"outer", "reduce", "inner"};

std::string ValueText(int64_t i) { return StrCat("%", i); }

// Verification keeps, per instruction, the set of dims its result varies over, as a bit mask.
class Checker {
 public:
  explicit Checker(const FusedProgram& program) : p_(program) {}

  absl::Status Check() {
    if (p_.dims.size() > kMaxRank) return Error(StrCat("has more than ", kMaxRank, " dims"));
    if (p_.instructions.size() > kMaxFusedInstructions || p_.operands.size() > kMaxFusedOperands ||
        p_.outputs.size() > kMaxFusedOperands) {
      return Error(StrCat("has more than ", kMaxFusedInstructions, " instructions, or ",
                          kMaxFusedOperands, " operands or outputs"));
    }
    for (size_t d = 0; d < p_.dims.size(); ++d) {
      if (p_.dims[d].size < 0 || p_.dims[d].size > kMaxBytes) {
        return Error(StrCat("dim ", d, " has size ", p_.dims[d].size));
      }
      if (p_.dims[d].role == DimRole::kReduce) reduce_dims_ |= uint32_t{1} << d;
    }
    Shape space;
    for (const IndexDim& dim : p_.dims) space.push_back(dim.size);
    if (!CheckedNumElements(space).has_value()) return Error("has too many points");
    for (size_t i = 0; i < p_.operands.size(); ++i) {
      if (p_.operands[i].strides.size() != p_.dims.size()) {
        return Error(StrCat("operand @", i, " does not have one stride per dim"));
      }
    }
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckInstruction(static_cast<int32_t>(i)));
    }
    if (p_.outputs.empty()) return Error("has no outputs");
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckOutput(i));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Error(std::string_view what) {
    return BadInputError(StrCat("fused program: ", what));
  }

  absl::Status CheckInstruction(int32_t i) {
    const ScalarInstruction& s = p_.instructions[i];
    uint32_t varies = 0;
    if (s.op == ScalarOp::kLoad) {
      if (s.a < 0 || s.a >= static_cast<int32_t>(p_.operands.size())) {
        return Error(StrCat(ValueText(i), " loads an operand that is not there"));
      }
      if (p_.operands[s.a].dtype != s.dtype) {
        return Error(StrCat(ValueText(i), " loads ", DTypeName(p_.operands[s.a].dtype), " as ",
                            DTypeName(s.dtype), "; cast after loading"));
      }
      for (size_t d = 0; d < p_.dims.size(); ++d) {
        if (p_.operands[s.a].strides[d] != 0) varies |= uint32_t{1} << d;
      }
    } else if (s.op == ScalarOp::kIndex) {
      if (s.a < 0 || s.a >= static_cast<int32_t>(p_.dims.size())) {
        return Error(StrCat(ValueText(i), " is the index along a dim that is not there"));
      }
      if (s.dtype != DType::kI64) return Error(StrCat(ValueText(i), ": an index is i64"));
      varies = uint32_t{1} << s.a;
    } else {
      MILLRACE_RETURN_IF_ERROR(CheckOperands(i, varies));
    }
    if (IsReduction(s.op)) varies &= ~reduce_dims_;
    varies_.push_back(varies);
    return absl::OkStatus();
  }

  absl::Status CheckOperands(int32_t i, uint32_t& varies) {
    const ScalarInstruction& s = p_.instructions[i];
    const int32_t operands[] = {s.a, s.b, s.c};
    for (int k = 0; k < 3; ++k) {
      if (k >= Arity(s.op)) {
        if (operands[k] != -1) return Error(StrCat(ValueText(i), " has too many operands"));
        continue;
      }
      if (operands[k] < 0 || operands[k] >= i) {
        return Error(StrCat(ValueText(i), " uses a value that is not computed before it"));
      }
      varies |= varies_[operands[k]];
    }
    return CheckDTypes(i);
  }

  absl::Status CheckDTypes(int32_t i) {
    const ScalarInstruction& s = p_.instructions[i];
    if (s.op == ScalarOp::kConstant && !IsFloat(s.dtype) && s.constant != std::trunc(s.constant)) {
      return Error(StrCat(ValueText(i), ": ", s.constant, " is no ", DTypeName(s.dtype)));
    }
    if (s.op == ScalarOp::kConstant || s.op == ScalarOp::kCast) return absl::OkStatus();
    const auto dtype_of = [&](int32_t v) { return p_.instructions[v].dtype; };
    const auto mismatch = [&](DType expected, DType found) {
      return Error(StrCat(ValueText(i), " = ", ScalarOpName(s.op), ": expected ",
                          DTypeName(expected), ", found ", DTypeName(found)));
    };
    if (IsComparison(s.op) || s.op == ScalarOp::kIsNaN) {
      if (s.dtype != DType::kBool) return mismatch(DType::kBool, s.dtype);
      if (s.b >= 0 && dtype_of(s.a) != dtype_of(s.b)) return mismatch(dtype_of(s.a), dtype_of(s.b));
      if (s.op == ScalarOp::kIsNaN && !IsFloat(dtype_of(s.a))) return NoSuch(i, dtype_of(s.a));
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(CheckDomain(i));
    const bool is_select = s.op == ScalarOp::kSelect;
    if (is_select && dtype_of(s.a) != DType::kBool) return mismatch(DType::kBool, dtype_of(s.a));
    for (int32_t operand : {is_select ? -1 : s.a, s.b, s.c}) {
      if (operand >= 0 && dtype_of(operand) != s.dtype) return mismatch(s.dtype, dtype_of(operand));
    }
    return absl::OkStatus();
  }

  absl::Status NoSuch(int32_t i, DType dtype) const {
    return Error(StrCat(ValueText(i), ": there is no ", ScalarOpName(p_.instructions[i].op), " of ",
                        DTypeName(dtype)));
  }

  // Logic is of bools and bits, functions that are not exact are of floats, the rest of numbers.
  absl::Status CheckDomain(int32_t i) const {
    const ScalarInstruction& s = p_.instructions[i];
    const bool fits = s.op == ScalarOp::kSelect ? true
                      : s.op == ScalarOp::kNot  ? s.dtype == DType::kBool
                      : IsLogic(s.op)           ? !IsFloat(s.dtype)
                      : IsOfFloats(s.op)        ? IsFloat(s.dtype)
                                                : s.dtype != DType::kBool;
    return fits ? absl::OkStatus() : NoSuch(i, s.dtype);
  }

  absl::Status CheckOutput(size_t i) const {
    const FusedOutput& out = p_.outputs[i];
    if (out.value < 0 || out.value >= static_cast<int32_t>(p_.instructions.size())) {
      return Error(StrCat("output ", i, " stores a value that is not there"));
    }
    if (out.strides.size() != p_.dims.size()) {
      return Error(StrCat("output ", i, " does not have one stride per dim"));
    }
    for (size_t d = 0; d < p_.dims.size(); ++d) {
      if (p_.dims[d].size <= 1 || out.strides[d] != 0) continue;
      const bool varies = (varies_[out.value] >> d & 1) != 0;
      if (varies || p_.dims[d].role != DimRole::kReduce) {
        return Error(StrCat("output ", i, " has stride 0 along dim ", d,
                            ", which would store different points to one place"));
      }
    }
    return absl::OkStatus();
  }

  const FusedProgram& p_;
  uint32_t reduce_dims_ = 0;
  std::vector<uint32_t> varies_;
};

}  // namespace

int Arity(ScalarOp op) { return kOps[static_cast<int>(op)].arity; }

bool IsReduction(ScalarOp op) { return op >= ScalarOp::kReduceSum; }

bool IsComparison(ScalarOp op) { return op >= ScalarOp::kEqual && op <= ScalarOp::kGreaterEqual; }

std::string_view ScalarOpName(ScalarOp op) { return kOps[static_cast<int>(op)].name; }

std::optional<ScalarOp> ParseScalarOp(std::string_view name) {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].name == name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}

std::string_view DimRoleName(DimRole role) { return kRoles[static_cast<int>(role)]; }

std::optional<DimRole> ParseDimRole(std::string_view name) {
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    if (kRoles[i] == name) return static_cast<DimRole>(i);
  }
  return std::nullopt;
}

absl::Status VerifyFusedProgram(const FusedProgram& program) { return Checker(program).Check(); }

}  // namespace millrace
