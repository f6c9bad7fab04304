// The index space is cut into lanes: all points that one reduction combines, or the last dim where
// nothing is reduced. For each of the other points the instructions are computed in order, each on
// all lanes at once, by the functions that the references of ops are made of. A reduction's result
// is the same in all lanes.
#include "ops/fused_reference.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/assert.h"
#include "graph/strings.h"
#include "ops/elementwise.h"
#include "ops/row_functions.h"
#include "ops/scalar_functions.h"

namespace millrace {
namespace {

Shape StridesAlong(std::span<const int64_t> strides, std::span<const int> dims) {
  Shape along;
  for (int d : dims) along.push_back(strides[d]);
  return along;
}

// The offsets of all points of `space`, in order.
std::vector<int64_t> OffsetsOf(const Shape& space, const Shape& strides) {
  std::vector<int64_t> offsets;
  WalkIndices<1>(space, {strides},
                 [&](const std::array<int64_t, 1>& at) { offsets.push_back(at[0]); });
  return offsets;
}

// --- One instruction on tensors of one element a lane --------------------------------------------

template <auto kFunction>
absl::Status OfDoubles(const Tensor& a, Tensor& out) {
  return VisitFloats(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapDoubles<T, T>(a, out, kFunction);
    return absl::OkStatus();
  });
}

template <auto kFunction>
absl::Status OfNumbers(const Tensor& a, Tensor& out) {
  return VisitNumeric(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> from = a.data<T>();
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<T>(kFunction(static_cast<NativeType<T>>(from[i])));
    }
    return absl::OkStatus();
  });
}

absl::Status UnaryLanes(ScalarOp op, const Tensor& a, Tensor& out) {
  switch (op) {
    case ScalarOp::kNeg:
      return OfNumbers<[](auto x) { return Negative(x); }>(a, out);
    case ScalarOp::kAbs:
      return OfNumbers<[](auto x) { return Magnitude(x); }>(a, out);
    case ScalarOp::kSign:
      return OfNumbers<[](auto x) { return SignOf(x); }>(a, out);
    case ScalarOp::kExp:
      return OfDoubles<[](double x) { return std::exp(x); }>(a, out);
    case ScalarOp::kLog:
      return OfDoubles<[](double x) { return std::log(x); }>(a, out);
    case ScalarOp::kSqrt:
      return OfDoubles<[](double x) { return std::sqrt(x); }>(a, out);
    case ScalarOp::kRsqrt:
      return OfDoubles<[](double x) { return 1 / std::sqrt(x); }>(a, out);
    case ScalarOp::kReciprocal:
      return OfDoubles<[](double x) { return 1 / x; }>(a, out);
    case ScalarOp::kTanh:
      return OfDoubles<[](double x) { return std::tanh(x); }>(a, out);
    case ScalarOp::kErf:
      return OfDoubles<[](double x) { return std::erf(x); }>(a, out);
    case ScalarOp::kSigmoid:
      return OfDoubles<[](double x) { return 1 / (1 + std::exp(-x)); }>(a, out);
    case ScalarOp::kSin:
      return OfDoubles<[](double x) { return std::sin(x); }>(a, out);
    case ScalarOp::kCos:
      return OfDoubles<[](double x) { return std::cos(x); }>(a, out);
    case ScalarOp::kExpm1:
      return OfDoubles<[](double x) { return std::expm1(x); }>(a, out);
    case ScalarOp::kSoftplus:
      return OfDoubles<SoftplusOf>(a, out);
    case ScalarOp::kGelu:
      return OfDoubles<GeluOf>(a, out);
    case ScalarOp::kGeluTanh:
      return OfDoubles<GeluTanhOf>(a, out);
    case ScalarOp::kFloor:
      return OfDoubles<[](double x) { return std::floor(x); }>(a, out);
    case ScalarOp::kCeil:
      return OfDoubles<[](double x) { return std::ceil(x); }>(a, out);
    case ScalarOp::kRound:
      return OfDoubles<[](double x) { return std::nearbyint(x); }>(a, out);
    default:
      return InternalError(StrCat("no reference for ", ScalarOpName(op)));
  }
}

// kNot, kIsNaN, kCast: the result's type is not the operand's, or is no number.
absl::Status NotLanes(const Tensor& a, Tensor& out) {
  const std::span<const bool> x = a.data<bool>();
  std::transform(x.begin(), x.end(), out.mutable_data<bool>().begin(), std::logical_not<>());
  return absl::OkStatus();
}

absl::Status IsNaNLanes(const Tensor& a, Tensor& out) {
  return VisitFloats(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapDoubles<T, bool>(a, out, [](double x) { return std::isnan(x); });
    return absl::OkStatus();
  });
}

absl::Status CastLanes(const Tensor& a, Tensor& out) {
  return VisitAll(a.dtype(), [&](auto from_tag) {
    return VisitAll(out.dtype(), [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      const std::span<const From> from = a.data<From>();
      const std::span<To> to = out.mutable_data<To>();
      for (size_t i = 0; i < to.size(); ++i) to[i] = ConvertTo<To>(from[i]);
      return absl::OkStatus();
    });
  });
}

template <auto kFunction>
absl::Status OfPairs(const Tensor& a, const Tensor& b, Tensor& out) {
  return VisitNumeric(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T>(a, b, out);
    return absl::OkStatus();
  });
}

template <auto kFunction>
absl::Status OfWrappingPairs(const Tensor& a, const Tensor& b, Tensor& out) {
  return VisitNumeric(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T, ComputeType<T>>(a, b, out);
    return absl::OkStatus();
  });
}

// Of bools, or the bits of integers.
template <auto kFunction>
absl::Status OfBits(const Tensor& a, const Tensor& b, Tensor& out) {
  if (a.dtype() == DType::kBool) {
    MapPairs<kFunction, bool, bool>(a, b, out);
    return absl::OkStatus();
  }
  return VisitIntegers(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T>(a, b, out);
    return absl::OkStatus();
  });
}

template <auto kCompare>
absl::Status ComparePairs(const Tensor& a, const Tensor& b, Tensor& out) {
  return VisitAll(a.dtype(), [&](auto tag) {
    MapPairs<kCompare, typename decltype(tag)::type, bool>(a, b, out);
    return absl::OkStatus();
  });
}

absl::Status PowLanes(const Tensor& a, const Tensor& b, Tensor& out) {
  return VisitFloats(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      to[i] = ConvertTo<T>(std::pow(a.AsDouble(at), b.AsDouble(at)));
    }
    return absl::OkStatus();
  });
}

absl::Status BinaryLanes(ScalarOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (op) {
    case ScalarOp::kAdd:
      return OfWrappingPairs<kAdd>(a, b, out);
    case ScalarOp::kSub:
      return OfWrappingPairs<kSub>(a, b, out);
    case ScalarOp::kMul:
      return OfWrappingPairs<kMul>(a, b, out);
    case ScalarOp::kDiv:
      return OfPairs<kDivide>(a, b, out);
    case ScalarOp::kMin:
      return OfPairs<kMin>(a, b, out);
    case ScalarOp::kMax:
      return OfPairs<kMax>(a, b, out);
    case ScalarOp::kMod:
      return OfPairs<kRemainder>(a, b, out);
    case ScalarOp::kPow:
      return PowLanes(a, b, out);
    case ScalarOp::kAnd:
      return OfBits<kAnd>(a, b, out);
    case ScalarOp::kOr:
      return OfBits<kOr>(a, b, out);
    case ScalarOp::kXor:
      return OfBits<kXor>(a, b, out);
    case ScalarOp::kEqual:
      return ComparePairs<kEqual>(a, b, out);
    case ScalarOp::kNotEqual:
      return ComparePairs<kNotEqual>(a, b, out);
    case ScalarOp::kLess:
      return ComparePairs<kLess>(a, b, out);
    case ScalarOp::kLessEqual:
      return ComparePairs<kLessOrEqual>(a, b, out);
    case ScalarOp::kGreater:
      return ComparePairs<kGreater>(a, b, out);
    case ScalarOp::kGreaterEqual:
      return ComparePairs<kGreaterOrEqual>(a, b, out);
    default:
      return InternalError(StrCat("no reference for ", ScalarOpName(op)));
  }
}

absl::Status SelectLanes(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  const std::span<const bool> chosen = condition.data<bool>();
  const int64_t size = SizeOf(out.dtype());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::byte* from = (chosen[i] ? a : b).bytes();
    std::memcpy(out.mutable_bytes() + i * size, from + i * size, size);
  }
  return absl::OkStatus();
}

absl::Status FmaLanes(const Tensor& a, const Tensor& b, const Tensor& c, Tensor& out) {
  return VisitFloats(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // The product of two halves is exact in f64.
    using Wide = std::conditional_t<kIsHalf<T>, double, T>;
    const auto wide = [](T x) { return static_cast<Wide>(static_cast<NativeType<T>>(x)); };
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = Narrow<T>(std::fma(wide(a.data<T>()[i]), wide(b.data<T>()[i]), wide(c.data<T>()[i])));
    }
    return absl::OkStatus();
  });
}

// All lanes of `out` become kReduce of the first `count` lanes of `a`.
template <auto kReduce>
absl::Status OfRow(const Tensor& a, int64_t count, Tensor& out) {
  return VisitNumeric(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<NativeType<T>> row;
    for (T x : a.data<T>().first(count)) row.push_back(static_cast<NativeType<T>>(x));
    std::ranges::fill(out.mutable_data<T>(), ConvertTo<T>(kReduce(row)));
    return absl::OkStatus();
  });
}

absl::Status ReduceLanes(ScalarOp op, const Tensor& a, int64_t count, Tensor& out) {
  switch (op) {
    case ScalarOp::kReduceSum:
      return OfRow<kSumOf>(a, count, out);
    case ScalarOp::kReduceProd:
      return OfRow<kProductOf>(a, count, out);
    case ScalarOp::kReduceMax:
      return OfRow<kLargestOf>(a, count, out);
    case ScalarOp::kReduceMin:
      return OfRow<kSmallestOf>(a, count, out);
    default:
      return InternalError(StrCat("no reference for ", ScalarOpName(op)));
  }
}

// --- The whole program ---------------------------------------------------------------------------

class FusedEvaluator {
 public:
  FusedEvaluator(const FusedProgram& program, std::span<const Tensor> inputs,
                 std::span<Tensor> outputs)
      : p_(program), inputs_(inputs), outputs_(outputs) {
    const auto is_reduced = [](const IndexDim& dim) { return dim.role == DimRole::kReduce; };
    const bool reduces = std::ranges::any_of(p_.dims, is_reduced);
    const int rank = static_cast<int>(p_.dims.size());
    for (int d = 0; d < rank; ++d) {
      const bool is_lane = reduces ? is_reduced(p_.dims[d]) : d == rank - 1;
      (is_lane ? lane_dims_ : outer_dims_).push_back(d);
      (is_lane ? lane_space_ : outer_space_).push_back(p_.dims[d].size);
    }
    lanes_ = NumElements(lane_space_);
  }

  absl::Status Run() {
    // A result of no lanes must still be stored: there is always one lane.
    const int64_t allocated = std::max<int64_t>(lanes_, 1);
    for (const ScalarInstruction& s : p_.instructions) {
      MILLRACE_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate({s.dtype, Shape{allocated}}));
      std::fill_n(value.mutable_bytes(), value.size_bytes(), std::byte{0});
      values_.push_back(std::move(value));
    }
    for (const FusedOperand& operand : p_.operands) {
      lane_offsets_.push_back(OffsetsOf(lane_space_, StridesAlong(operand.strides, lane_dims_)));
    }
    absl::Status status;
    Shape index;
    for (size_t d = 0; d < outer_dims_.size(); ++d) index.push_back(0);
    if (NumElements(outer_space_) == 0) return status;
    do {
      MILLRACE_RETURN_IF_ERROR(RunPoint(index));
    } while (Advance(index));
    return status;
  }

 private:
  bool Advance(Shape& index) const {
    for (int d = index.rank() - 1; d >= 0; --d) {
      if (++index[d] < outer_space_[d]) return true;
      index[d] = 0;
    }
    return false;
  }

  int64_t Base(int64_t offset, std::span<const int64_t> strides, const Shape& index) const {
    for (int d = 0; d < index.rank(); ++d) offset += index[d] * strides[outer_dims_[d]];
    return offset;
  }

  absl::Status RunPoint(const Shape& index) {
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(Compute(p_.instructions[i], index, values_[i]));
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (outputs_[i].has_data())
        MILLRACE_RETURN_IF_ERROR(Store(p_.outputs[i], index, outputs_[i]));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(const ScalarInstruction& s, const Shape& index, Tensor& out) {
    const auto value = [&](int32_t i) -> const Tensor& { return values_[i]; };
    switch (s.op) {
      case ScalarOp::kLoad:
        Load(s.a, index, out);
        return absl::OkStatus();
      case ScalarOp::kConstant:
        for (int64_t i = 0; i < out.num_elements(); ++i) out.Set(i, s.constant);
        return absl::OkStatus();
      case ScalarOp::kIndex:
        FillIndex(s.a, index, out);
        return absl::OkStatus();
      case ScalarOp::kCast:
        return CastLanes(value(s.a), out);
      case ScalarOp::kNot:
        return NotLanes(value(s.a), out);
      case ScalarOp::kIsNaN:
        return IsNaNLanes(value(s.a), out);
      case ScalarOp::kSelect:
        return SelectLanes(value(s.a), value(s.b), value(s.c), out);
      case ScalarOp::kFma:
        return FmaLanes(value(s.a), value(s.b), value(s.c), out);
      default:
        break;
    }
    if (IsReduction(s.op)) return ReduceLanes(s.op, value(s.a), lanes_, out);
    if (Arity(s.op) == 1) return UnaryLanes(s.op, value(s.a), out);
    return BinaryLanes(s.op, value(s.a), value(s.b), out);
  }

  void Load(int32_t operand, const Shape& index, Tensor& out) const {
    const FusedOperand& from = p_.operands[operand];
    const int64_t size = SizeOf(from.dtype);
    const int64_t base = Base(from.offset, from.strides, index);
    for (int64_t i = 0; i < lanes_; ++i) {
      std::memcpy(out.mutable_bytes() + i * size,
                  inputs_[operand].bytes() + (base + lane_offsets_[operand][i]) * size, size);
    }
    // The one lane that there always is holds what does not vary over lanes.
    const Shape strides = StridesAlong(from.strides, lane_dims_);
    if (lanes_ == 0 && std::ranges::all_of(strides, [](int64_t s) { return s == 0; })) {
      std::memcpy(out.mutable_bytes(), inputs_[operand].bytes() + base * size, size);
    }
  }

  void FillIndex(int32_t dim, const Shape& index, Tensor& out) const {
    const std::span<int64_t> to = out.mutable_data<int64_t>();
    for (size_t d = 0; d < outer_dims_.size(); ++d) {
      if (outer_dims_[d] == dim) std::ranges::fill(to, index[d]);
    }
    for (size_t d = 0; d < lane_dims_.size(); ++d) {
      if (lane_dims_[d] != dim) continue;
      Shape steps;
      for (size_t k = 0; k < lane_dims_.size(); ++k) steps.push_back(k == d ? 1 : 0);
      std::ranges::copy(OffsetsOf(lane_space_, steps), to.begin());
    }
  }

  absl::Status Store(const FusedOutput& output, const Shape& index, Tensor& to) {
    Tensor value = values_[output.value];
    if (value.dtype() != output.dtype) {
      Tensor converted = Tensor::Zeros({output.dtype, value.shape()});
      MILLRACE_RETURN_IF_ERROR(CastLanes(value, converted));
      value = converted;
    }
    const int64_t size = SizeOf(output.dtype);
    std::byte* base = to.mutable_bytes() + Base(output.offset, output.strides, index) * size;
    const Shape strides = StridesAlong(output.strides, lane_dims_);
    const bool once = std::ranges::all_of(strides, [](int64_t stride) { return stride == 0; });
    const std::vector<int64_t> offsets =
        once ? std::vector<int64_t>{0} : OffsetsOf(lane_space_, strides);
    for (size_t i = 0; i < offsets.size(); ++i) {
      std::memcpy(base + offsets[i] * size, value.bytes() + i * size, size);
    }
    return absl::OkStatus();
  }

  const FusedProgram& p_;
  const std::span<const Tensor> inputs_;
  const std::span<Tensor> outputs_;
  std::vector<int> lane_dims_, outer_dims_;
  Shape lane_space_, outer_space_;
  int64_t lanes_ = 1;
  std::vector<Tensor> values_;                      // by instruction, an element a lane
  std::vector<std::vector<int64_t>> lane_offsets_;  // by operand
};

}  // namespace

absl::Status EvaluateFusedProgram(const FusedProgram& program, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
  MILLRACE_CHECK(inputs.size() >= program.operands.size());
  MILLRACE_CHECK(outputs.size() >= program.outputs.size());
  return FusedEvaluator(program, inputs, outputs).Run();
}

namespace {

absl::Status CheckOperandReach(const FusedProgram& program, size_t i, const TensorType& type) {
  const FusedOperand& operand = program.operands[i];
  if (operand.dtype != type.dtype) {
    return BadInputError(StrCat("operand @", i, " is ", DTypeName(operand.dtype),
                                ", but the input is ", ToString(type)));
  }
  __int128 low = operand.offset, high = operand.offset;  // strides are anybody's
  for (size_t d = 0; d < program.dims.size(); ++d) {
    if (program.dims[d].size == 0) {  // nothing is read, unless it is read once for all
      if (program.dims[d].role == DimRole::kReduce && operand.strides[d] == 0) continue;
      return absl::OkStatus();
    }
    const __int128 reach = static_cast<__int128>(operand.strides[d]) * (program.dims[d].size - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (low >= 0 && high < NumElements(type.shape)) return absl::OkStatus();
  return BadInputError(StrCat("operand @", i, " reads beyond ", ToString(type)));
}

absl::Status CheckOutputCover(const FusedProgram& program, size_t i, const TensorType& type) {
  const FusedOutput& output = program.outputs[i];
  if (output.dtype != type.dtype) {
    return BadInputError(StrCat("output ", i, " is ", DTypeName(output.dtype), ", but its type is ",
                                ToString(type)));
  }
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  __int128 count = 1;
  for (size_t d = 0; d < program.dims.size(); ++d) {
    const int64_t size = program.dims[d].size;
    if (program.dims[d].role == DimRole::kReduce && output.strides[d] == 0) continue;
    if (size != 1) steps.emplace_back(output.strides[d], size);
    count = std::min<__int128>(count * size, static_cast<__int128>(kMaxBytes) + 1);
  }
  const auto fault = [&] {
    return BadInputError(
        StrCat("output ", i, " does not write each element of ", ToString(type), " once"));
  };
  if (count != NumElements(type.shape) || output.offset != 0) return fault();
  if (count == 0) return absl::OkStatus();
  std::ranges::sort(steps);
  int64_t dense = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != dense) return fault();
    dense *= size;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFusedOperands(const FusedProgram& program, std::span<const TensorType> inputs,
                                std::span<const TensorType> outputs) {
  if (inputs.size() != program.operands.size() || outputs.size() != program.outputs.size()) {
    return BadInputError(StrCat("the program has ", program.operands.size(), " operands and ",
                                program.outputs.size(), " outputs, not ", inputs.size(), " and ",
                                outputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOperandReach(program, i, inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOutputCover(program, i, outputs[i]));
  }
  return absl::OkStatus();
}

}  // namespace millrace
