// Add, Sub, Mul, and Div of floats, with broadcasting, on element types other than f32: plain loops
// over the collapsed index space. Integers wrap around; f16 and bf16 are computed in f32 and
// rounded once: bit for bit what the reference gives. (Ops of one operand need no such family:
// their references are plain loops already.)
#include <functional>

#include "ops/cpu/broadcast_space.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

using BinaryFn = void (*)(const BroadcastSpace& space, const void* a, const void* b, void* out,
                          int64_t begin, int64_t end);

template <typename T, typename Op>
void BinaryLoop(const BroadcastSpace& space, const void* a, const void* b, void* out, int64_t begin,
                int64_t end) {
  using Wide = ComputeType<T>;
  const int64_t step_a = space.a[space.rank - 1], step_b = space.b[space.rank - 1];
  WalkRows(space, begin, end, [&](int64_t at_a, int64_t at_b, int64_t at, int64_t n) {
    const T* x = static_cast<const T*>(a) + at_a;
    const T* y = static_cast<const T*>(b) + at_b;
    T* z = static_cast<T*>(out) + at;
    for (int64_t i = 0; i < n; ++i) {
      z[i] =
          static_cast<T>(Op()(static_cast<Wide>(x[i * step_a]), static_cast<Wide>(y[i * step_b])));
    }
  });
}

BinaryFn FindBinary(const NodeQuery& query) {
  if (query.inputs.size() != 2 || !HasInput(query, 0) || !HasOutput(query, 0)) return nullptr;
  const DType dtype = query.outputs[0]->dtype;
  if (dtype == DType::kF32 || dtype == DType::kBool || !AllOf(query, dtype)) return nullptr;
  BinaryFn function = nullptr;
  (void)VisitNumeric(dtype, [&](auto tag) {  // ok: numeric types only
    using T = typename decltype(tag)::type;
    if (query.op == "Add") function = BinaryLoop<T, std::plus<>>;
    if (query.op == "Sub") function = BinaryLoop<T, std::minus<>>;
    if (query.op == "Mul") function = BinaryLoop<T, std::multiplies<>>;
    if constexpr (kIsFloating<T>) {
      if (query.op == "Div") function = BinaryLoop<T, std::divides<>>;
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
  const NodeQuery& query = request.query;
  return std::make_unique<BinaryKernel>(
      FindBinary(query),
      MakeBroadcastSpace(query.inputs[0]->shape, query.inputs[1]->shape, query.outputs[0]->shape),
      request.threads);
}

}  // namespace

KernelFamily LoopBinaryFamily() { return {"loop", Match, Prepare}; }

}  // namespace millrace
