// Elementwise ops of two operands, with broadcasting, where there is no SIMD kernel
// (simd_binary.cc: f32): plain loops over the collapsed index space. Integers wrap around; f16 and
// bf16 are computed in f32 and rounded once: bit for bit what the reference gives. (Ops of one
// operand need no such family: their references are plain loops already.)
#include <cmath>

#include "ops/cpu/broadcast_space.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"
#include "ops/reference_dispatch.h"
#include "ops/scalar_functions.h"

namespace millrace {
namespace {

using BinaryFn = void (*)(const BroadcastSpace& space, const void* a, const void* b, void* out,
                          int64_t begin, int64_t end);

// kFunction(x, y) on elements of T widened to Wide.
template <auto kFunction, typename T, typename Wide, typename Result>
void BinaryLoop(const BroadcastSpace& space, const void* a, const void* b, void* out, int64_t begin,
                int64_t end) {
  const int64_t step_a = space.Steps(0), step_b = space.Steps(1);
  WalkRows<2>(space, begin, end, [&](const std::array<int64_t, 2>& from, int64_t at, int64_t n) {
    const T* x = static_cast<const T*>(a) + from[0];
    const T* y = static_cast<const T*>(b) + from[1];
    Result* z = static_cast<Result*>(out) + at;
    for (int64_t i = 0; i < n; ++i) {
      z[i] = static_cast<Result>(
          kFunction(static_cast<Wide>(x[i * step_a]), static_cast<Wide>(y[i * step_b])));
    }
  });
}

// Squares, by far the most common powers, are a product: exact in f64 for narrower types, so
// rounded once like the reference's power.
template <typename T>
constexpr auto kPow = [](auto a, auto b) {
  const double x = static_cast<double>(a);
  if (!std::is_same_v<T, double> && b == 2) return ConvertTo<T>(x * x);
  return ConvertTo<T>(std::pow(x, static_cast<double>(b)));
};

template <typename T>
BinaryFn FindArithmetic(std::string_view op) {
  using Wide = ComputeType<T>;
  if (op == "Add") return BinaryLoop<kAdd, T, Wide, T>;
  if (op == "Sub") return BinaryLoop<kSub, T, Wide, T>;
  if (op == "Mul") return BinaryLoop<kMul, T, Wide, T>;
  using Native = NativeType<T>;
  if (op == "Max") return BinaryLoop<kMax, T, Native, T>;
  if (op == "Min") return BinaryLoop<kMin, T, Native, T>;
  if (op == "Less") return BinaryLoop<kLess, T, Native, bool>;
  if (op == "LessOrEqual") return BinaryLoop<kLessOrEqual, T, Native, bool>;
  if (op == "Greater") return BinaryLoop<kGreater, T, Native, bool>;
  if (op == "GreaterOrEqual") return BinaryLoop<kGreaterOrEqual, T, Native, bool>;
  if (op == "Div") return BinaryLoop<kDivide, T, Native, T>;
  if (op == "PRelu") return BinaryLoop<kPRelu, T, Native, T>;
  if constexpr (kIsFloating<T>) {
    if (op == "Pow") return BinaryLoop<kPow<T>, T, Native, T>;
  } else {
    if (op == "BitwiseAnd") return BinaryLoop<kAnd, T, T, T>;
    if (op == "BitwiseOr") return BinaryLoop<kOr, T, T, T>;
    if (op == "BitwiseXor") return BinaryLoop<kXor, T, T, T>;
  }
  return nullptr;
}

BinaryFn FindLogic(std::string_view op) {
  if (op == "And") return BinaryLoop<kAnd, bool, bool, bool>;
  if (op == "Or") return BinaryLoop<kOr, bool, bool, bool>;
  if (op == "Xor") return BinaryLoop<kXor, bool, bool, bool>;
  return nullptr;
}

// Both operands must have one type.
BinaryFn FindBinary(const NodeQuery& query) {
  if (query.inputs.size() != 2 || !HasInput(query, 0) || !HasInput(query, 1)) return nullptr;
  const DType dtype = query.inputs[0]->dtype;
  if (query.inputs[1]->dtype != dtype || !HasOutput(query, 0)) return nullptr;
  BinaryFn function = nullptr;
  (void)VisitAll(dtype, [&](auto tag) {  // ok: all types
    using T = typename decltype(tag)::type;
    if (query.op == "Equal" && !std::is_same_v<T, float>) {
      function = BinaryLoop<kEqual, T, NativeType<T>, bool>;
    } else if constexpr (std::is_same_v<T, bool>) {
      function = FindLogic(query.op);
    } else if constexpr (std::is_same_v<T, float>) {  // the rest is SIMD's
      if (query.op == "Pow") function = BinaryLoop<kPow<T>, T, T, T>;
    } else {
      function = FindArithmetic<T>(query.op);
    }
    return absl::OkStatus();
  });
  return function;
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(BinaryFn function, const BroadcastSpace& space, int threads)
      : function_(function), space_(space), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    ParallelFor(threads_, space_.count, space_.count, 64, [&](int64_t begin, int64_t end) {
      function_(space_, args.inputs[0], args.inputs[1], args.outputs[0], begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const BinaryFn function_;
  const BroadcastSpace space_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (FindBinary(query) == nullptr) return std::nullopt;
  return DenseVariant(query, "loop");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<BinaryKernel>(FindBinary(request.query), BroadcastSpaceOf(request.query),
                                        request.threads);
}

}  // namespace

KernelFamily LoopBinaryFamily() { return {"loop", Match, Prepare}; }

}  // namespace millrace
