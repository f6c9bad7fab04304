#include "ops/cuda/scalar_source.h"

#include <cmath>
#include <cstdio>

#include "graph/assert.h"
#include "graph/strings.h"
#include "ops/cuda/cuda_launch.h"

namespace millrace {
namespace {

bool IsHalfFloat(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

std::string FloatingLiteral(const char* type, double value, int digits) {
  if (std::isnan(value)) return StrCat("(Infinity<", type, ">() - Infinity<", type, ">())");
  if (std::isinf(value)) return StrCat(value < 0 ? "-" : "", "Infinity<", type, ">()");
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  std::string literal = text;
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  return std::string_view(type) == "f32" ? StrCat(literal, "f") : literal;
}

std::string UnaryName(ScalarOp op) {
  switch (op) {
    case ScalarOp::kNeg:
      return "Neg";
    case ScalarOp::kAbs:
      return "Abs";
    case ScalarOp::kSign:
      return "Sign";
    case ScalarOp::kExp:
      return "Exp";
    case ScalarOp::kLog:
      return "Log";
    case ScalarOp::kSqrt:
      return "Sqrt";
    case ScalarOp::kRsqrt:
      return "Rsqrt";
    case ScalarOp::kReciprocal:
      return "Reciprocal";
    case ScalarOp::kTanh:
      return "Tanh";
    case ScalarOp::kErf:
      return "Erf";
    case ScalarOp::kSigmoid:
      return "Sigmoid";
    case ScalarOp::kSin:
      return "Sin";
    case ScalarOp::kCos:
      return "Cos";
    case ScalarOp::kExpm1:
      return "Expm1";
    case ScalarOp::kSoftplus:
      return "Softplus";
    case ScalarOp::kGelu:
      return "Gelu";
    case ScalarOp::kGeluTanh:
      return "GeluTanh";
    case ScalarOp::kFloor:
      return "Floor";
    case ScalarOp::kCeil:
      return "Ceil";
    case ScalarOp::kRound:
      return "Round";
    case ScalarOp::kNot:
      return "Not";
    case ScalarOp::kIsNaN:
      return "IsNaN";
    default:
      return "";
  }
}

// A function's name, or an operator between spaces.
std::string BinaryName(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return "Add";
    case ScalarOp::kSub:
      return "Sub";
    case ScalarOp::kMul:
      return "Mul";
    case ScalarOp::kDiv:
      return "Div";
    case ScalarOp::kMin:
      return "Min";
    case ScalarOp::kMax:
      return "Max";
    case ScalarOp::kPow:
      return "Pow";
    case ScalarOp::kMod:
      return "Mod";
    case ScalarOp::kAnd:
      return "And";
    case ScalarOp::kOr:
      return "Or";
    case ScalarOp::kXor:
      return "Xor";
    case ScalarOp::kEqual:
      return " == ";
    case ScalarOp::kNotEqual:
      return " != ";
    case ScalarOp::kLess:
      return " < ";
    case ScalarOp::kLessEqual:
      return " <= ";
    case ScalarOp::kGreater:
      return " > ";
    case ScalarOp::kGreaterEqual:
      return " >= ";
    default:
      return "";
  }
}

}  // namespace

std::string ValueName(int32_t i) { return StrCat("t", i); }

std::string ConstantSource(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return FloatingLiteral("f64", value, 17);
    case DType::kF32:
      return FloatingLiteral("f32", static_cast<float>(value), 9);
    case DType::kBool:
      return value != 0 ? "true" : "false";
    default:
      return StrCat("Convert<", DeviceType(dtype), ">(", FloatingLiteral("f64", value, 17), ")");
  }
}

std::string ExpressionSource(const FusedProgram& program, int32_t i) {
  const ScalarInstruction& s = program.instructions[static_cast<size_t>(i)];
  // Halves are computed with as f32.
  const auto native = [&](int32_t v) {
    const DType dtype = program.instructions[static_cast<size_t>(v)].dtype;
    return IsHalfFloat(dtype) ? StrCat("ToNative(", ValueName(v), ")") : ValueName(v);
  };
  const auto as_result = [&](const std::string& value) {
    return IsHalfFloat(s.dtype) ? StrCat("Convert<", DeviceType(s.dtype), ">(", value, ")") : value;
  };
  switch (s.op) {
    case ScalarOp::kConstant:
      return ConstantSource(s.dtype, s.constant);
    case ScalarOp::kCast:
      return StrCat("Convert<", DeviceType(s.dtype), ">(", ValueName(s.a), ")");
    case ScalarOp::kSelect:
      return StrCat(ValueName(s.a), " ? ", ValueName(s.b), " : ", ValueName(s.c));
    case ScalarOp::kFma:
      return as_result(StrCat("Fma(", native(s.a), ", ", native(s.b), ", ", native(s.c), ")"));
    default:
      break;
  }
  if (const std::string unary = UnaryName(s.op); !unary.empty()) {
    return as_result(StrCat(unary, "(", native(s.a), ")"));
  }
  const std::string binary = BinaryName(s.op);
  MILLRACE_CHECK(!binary.empty());
  if (binary.front() == ' ') return StrCat(native(s.a), binary, native(s.b));
  return as_result(StrCat(binary, "(", native(s.a), ", ", native(s.b), ")"));
}

std::string_view ReductionName(ScalarOp op) {
  switch (op) {
    case ScalarOp::kReduceSum:
      return "SumOf";
    case ScalarOp::kReduceProd:
      return "ProdOf";
    case ScalarOp::kReduceMax:
      return "MaxOf";
    default:
      return "MinOf";
  }
}

}  // namespace millrace
