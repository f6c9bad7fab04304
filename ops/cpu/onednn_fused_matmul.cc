// f32 fused.MatMul, and MatMul and Gemm whose weights can be packed, by sgemm in panels of columns:
// each panel of the result goes through the epilogue (fused_worker.h) while it lies in L2.
//
// sgemm copies B into an order of its own at each call. Columns of a wide row-major B are far
// apart, and that copy then misses the TLB: [128,768] x [768,3072] takes 1.3 times as long as four
// products with [768,768] (bench/cpu_kernels_bench.cc). So weights wider than a panel are packed
// panel after panel, each dense. Narrower ones are taken as they are, and those of a few rows, which
// sgemm reads in one pass without a copy: packed they take 1.27 times as long.
#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "ops/cpu/fused_worker.h"
#include "ops/matmul_spec.h"
#include "ops/cpu/onednn_families.h"
#include "ops/cpu/onednn_primitive.h"
#include "ops/cpu/team.h"
#include "ops/fused_product.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

constexpr int64_t kPanelColumns = 768, kFewRows = 8;

struct PanelSpec {
  MatMulSpec product;
  std::optional<PreparedFused> epilogue;  // none: the product is all
  size_t first_operand = 2;               // of the epilogue

  bool packable() const {
    return product.m > kFewRows && product.n > kPanelColumns && !product.transpose_b;
  }
  int64_t b_bytes() const { return product.k * product.n * static_cast<int64_t>(sizeof(float)); }
};

// One B for all rows, f32, an epilogue that can be run.
std::optional<PanelSpec> PanelSpecOf(const NodeQuery& query) {
  if (!AllOf(query, DType::kF32) || !HasInput(query, 1)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return std::nullopt;
  const std::optional<MatMulSpec> spec = MatMulSpecOf(product->plain);
  if (!spec.has_value() || spec->batch.rank() != 0 || spec->alpha != 1) return std::nullopt;
  std::optional<PreparedFused> epilogue;
  if (!IsIdentity(product->epilogue)) {
    epilogue = PrepareFused(product->epilogue);
    if (!epilogue.has_value() || epilogue->space.kind != FusedSpace::Kind::kMap) {
      return std::nullopt;
    }
  }
  // Columns of the result are those of the product.
  const Shape& result = product->plain.outputs[0]->shape;
  if (result.rank() == 0 || result[result.rank() - 1] != spec->n) return std::nullopt;
  return PanelSpec{*spec, std::move(epilogue), product->first_operand};
}

std::optional<PanelSpec> PackerSpecOf(const NodeQuery& query) {
  if (query.op != kPrepack || query.attrs.Int("input", 0) != 1) return std::nullopt;
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(query.attrs.String("reader", ""));
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(*reader);
  if (!normal.ok()) return std::nullopt;
  const std::optional<PanelSpec> spec = PanelSpecOf(*normal);
  return spec.has_value() && spec->packable() ? spec : std::nullopt;
}

class PanelKernel final : public Kernel {
 public:
  PanelKernel(const PanelSpec& spec, size_t num_inputs, bool packed, int threads)
      : spec_(spec),
        packed_(packed),
        threads_(TeamFor(spec.product.multiply_adds(), threads)),
        operands_(1 + (num_inputs > spec.first_operand ? num_inputs - spec.first_operand : 0)) {}

  absl::Status Run(const KernelArgs& args) override {
    SetTeamSize(threads_);
    operands_[0] = args.outputs[0];
    for (size_t i = 1; i < operands_.size(); ++i) {
      operands_[i] = args.inputs[spec_.first_operand + i - 1];
    }
    const MatMulSpec& s = spec_.product;
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    auto* out = static_cast<float*>(args.outputs[0]);
    for (int64_t column = 0; column < s.n; column += kPanelColumns) {
      const int64_t width = std::min(kPanelColumns, s.n - column);
      const float* panel = b + (packed_ ? column * s.k : s.transpose_b ? column * s.k : column);
      const int64_t stride = s.transpose_b ? s.k : packed_ ? width : s.n;
      MILLRACE_RETURN_IF_ERROR(ToStatus(
          dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, width, s.k, 1.0f, a,
                     s.transpose_a ? s.m : s.k, panel, stride, 0.0f, out + column, s.n),
          "sgemm"));
      if (spec_.epilogue.has_value()) RunEpilogue(column, width, args);
    }
    return absl::OkStatus();
  }

 private:
  // Over the panel, in place.
  void RunEpilogue(int64_t column, int64_t width, const KernelArgs& args) const {
    const PreparedFused& epilogue = *spec_.epilogue;
    const KernelArgs in_place = {.inputs = operands_.data(), .outputs = args.outputs};
    const int64_t rows = spec_.product.m;
    const int64_t steps = rows * width * std::ssize(epilogue.program.instructions);
    ParallelFor(threads_, rows, steps, 1, [&](int64_t begin, int64_t end) {
      std::byte* memory =
          static_cast<std::byte*>(args.scratch) + TeamIndex() * epilogue.WorkerBytes();
      RunFusedRegion(epilogue, in_place, memory,
                     {.columns = spec_.product.n,
                      .column_begin = column,
                      .width = width,
                      .row_begin = begin,
                      .row_end = end});
    });
  }

  const PanelSpec spec_;
  const bool packed_;
  const int threads_;
  std::vector<void*> operands_;  // of the epilogue: the product, then the further ones
};

// [k, n] to panels of [k, kPanelColumns], the last one narrower.
class PackPanelsKernel final : public Kernel {
 public:
  PackPanelsKernel(const PanelSpec& spec, int threads) : spec_(spec), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const float*>(args.inputs[0]);
    auto* to = static_cast<float*>(args.outputs[0]);
    const int64_t k = spec_.product.k, n = spec_.product.n;
    ParallelFor(threads_, k, k * n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t column = 0; column < n; column += kPanelColumns) {
        const int64_t width = std::min(kPanelColumns, n - column);
        for (int64_t l = begin; l < end; ++l) {
          std::memcpy(to + column * k + l * width, from + l * n + column,
                      static_cast<size_t>(width) * sizeof(float));
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const PanelSpec spec_;
  const int threads_;
};

KernelVariant PanelVariant(const NodeQuery& query, const PanelSpec& spec, int threads) {
  KernelVariant variant = DenseVariant(query, OneDnnVariant());
  if (spec.epilogue.has_value()) variant.scratch_bytes = spec.epilogue->WorkerBytes() * threads;
  return variant;
}

}  // namespace

std::optional<KernelVariant> MatchOneDnnFusedMatMul(const NodeQuery& query, int threads) {
  const std::optional<PanelSpec> spec = PanelSpecOf(query);
  if (query.op != "fused.MatMul" || !spec.has_value()) return std::nullopt;
  return PanelVariant(query, *spec, threads);
}

std::vector<KernelVariant> MoreOneDnnFusedMatMul(const NodeQuery& query, int threads) {
  const std::optional<PanelSpec> spec = PanelSpecOf(query);
  if (!spec.has_value() || !spec->packable()) return {};
  KernelVariant variant = PanelVariant(query, *spec, threads);
  variant.in_layouts[1] = Layout::kPacked;
  variant.packed_bytes = spec->b_bytes();
  return {variant};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnFusedMatMul(const KernelRequest& request) {
  const bool packed = request.inputs.size() > 1 && request.inputs[1].layout == Layout::kPacked;
  return std::make_unique<PanelKernel>(*PanelSpecOf(request.query), request.query.inputs.size(),
                                       packed, request.threads);
}

std::vector<KernelVariant> MoreOneDnnMatMulPacks(const NodeQuery& query, int) {
  const std::optional<PanelSpec> spec = PackerSpecOf(query);
  if (!spec.has_value()) return {};
  KernelVariant variant = DenseVariant(query, OneDnnVariant());
  variant.out_layouts[0] = Layout::kPacked;
  variant.packed_bytes = spec->b_bytes();
  return {variant};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnMatMulPack(const KernelRequest& request) {
  return std::make_unique<PackPanelsKernel>(*PackerSpecOf(request.query), request.threads);
}

}  // namespace millrace
