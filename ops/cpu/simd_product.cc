// f32 MatMul, Gemm and fused.MatMul with packed weights: B lies in panels of 48 columns, each [k,
// 48], so that it is read in one stream whatever k and n are. A panel is taken in blocks of k that
// stay in L1 with it go all rows of A, eight at a time, whose tile of the result is kept in
// registers (tile_product-inl.h); then the finished rows go through the epilogue (row_program.h)
// while they are in L1, and are written once. With one row it is one pass over B, at the rate of
// memory. Panels are divided among the team.
//
// Sums are taken in blocks of k, in f32: the error against the exact product is at most about
// k 2^-24 sum |a b|, and in practice far less.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_product.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/packed_product.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"
#include "ops/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// [rows, kPanel] sums of a block of A with a panel, `tile` rows being kPanel apart.
HWY_INLINE void PanelProduct(const PackedProduct& p, const float* a, int64_t rows,
                             const float* panel, float* tile) {
  constexpr size_t kVectors = kMaxTileVectors;
  const int64_t width = static_cast<int64_t>(kVectors * hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t l = 0; l < p.k; l += kBlockDepth) {
    const int64_t depth = HWY_MIN(kBlockDepth, p.k - l);
    const MatrixView view = {a + l * p.a_k_stride, p.a_row_stride, p.a_k_stride};
    for (int64_t c = 0; c < kPanel; c += width) {
      TileProduct<kVectors>(view, rows, depth, panel + l * kPanel + c, kPanel,
                            l == 0 ? nullptr : p.ones, tile + c, kPanel);
    }
  }
  if (p.k == 0) std::fill(tile, tile + rows * kPanel, 0.0f);
}

// What a step computes over `count` elements, a multiple of a vector.
HWY_INLINE void RunStep(ScalarOp op, const float* a, const float* b, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto unary = [&](auto f) HWY_ATTR { UnaryRow(a, out, count, f); };
  const auto binary = [&](auto f) HWY_ATTR { RowMap(a, b, out, count, f); };
  switch (op) {
    case ScalarOp::kNeg:
      return unary([&](auto x) HWY_ATTR { return hn::Neg(x); });
    case ScalarOp::kAbs:
      return unary([&](auto x) HWY_ATTR { return hn::Abs(x); });
    case ScalarOp::kExp:
      return unary([&](auto x) HWY_ATTR { return Exp(d, x); });
    case ScalarOp::kTanh:
      return unary([&](auto x) HWY_ATTR { return Tanh(d, x); });
    case ScalarOp::kErf:
      return unary([&](auto x) HWY_ATTR { return Erf(d, x); });
    case ScalarOp::kSigmoid:
      return unary([&](auto x) HWY_ATTR { return Sigmoid(d, x); });
    case ScalarOp::kGelu:
      return unary([&](auto x) HWY_ATTR { return Gelu(d, x); });
    case ScalarOp::kGeluTanh:
      return unary([&](auto x) HWY_ATTR { return GeluTanh(d, x); });
    case ScalarOp::kAdd:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
    case ScalarOp::kSub:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Sub(x, y); });
    case ScalarOp::kMul:
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); });
    default:  // kDiv: RowProgramOf lets nothing else through
      return binary([&](auto x, auto y) HWY_ATTR { return hn::Div(x, y); });
  }
}

// Rows of a further operand under a block of the result, `width` columns, the rest of a row 0.
HWY_INLINE void LoadBlock(const PackedProduct& p, const RowStep& step, int64_t row, int64_t rows,
                          int64_t column, int64_t width, float* out) {
  const float* from = p.operands[step.operand];
  if (step.source == RowStep::Source::kEach) {
    std::fill(out, out + rows * kPanel, *from);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, out += kPanel) {
    const int64_t at = step.source == RowStep::Source::kRow ? column : (row + r) * p.n + column;
    std::memcpy(out, from + at, static_cast<size_t>(width) * sizeof(float));
    std::fill(out + width, out + kPanel, 0.0f);
  }
}

// The epilogue over `rows` rows of a panel's tile, at most kEpilogueRows; where its result lies.
HWY_INLINE const float* RunEpilogue(const PackedProduct& p, const float* tile, int64_t row,
                                    int64_t rows, int64_t column, int64_t width, float* slots) {
  const float* values[kMaxRowSteps];
  const size_t count = static_cast<size_t>(rows * kPanel);
  for (size_t i = 0; i < p.num_steps; ++i) {
    const RowStep& step = p.steps[i];
    float* out = slots + static_cast<int64_t>(i) * kEpilogueRows * kPanel;
    values[i] = out;
    if (step.source == RowStep::Source::kResult) {
      values[i] = tile;
    } else if (step.source == RowStep::Source::kNumber) {
      std::fill(out, out + count, step.number);
    } else if (step.source != RowStep::Source::kValue) {
      LoadBlock(p, step, row, rows, column, width, out);
    } else {
      RunStep(step.op, values[step.a], step.b < 0 ? nullptr : values[step.b], out, count);
    }
  }
  return values[p.result];
}

void MultiplyPanels(const PackedProduct& p, int64_t begin, int64_t end) {
  float* tile = p.scratch;
  float* slots = tile + kBlockRows * kPanel;
  for (int64_t i = begin; i < end; ++i) {
    const float* panel = p.b + i * p.k * kPanel;
    const int64_t column = i * kPanel, width = HWY_MIN(kPanel, p.n - column);
    for (int64_t row = 0; row < p.m; row += kBlockRows) {
      const int64_t rows = HWY_MIN(kBlockRows, p.m - row);
      PanelProduct(p, p.a + row * p.a_row_stride, rows, panel, tile);
      for (int64_t r = 0; r < rows; r += kEpilogueRows) {
        const int64_t some = HWY_MIN(kEpilogueRows, rows - r);
        const float* from = RunEpilogue(p, tile + r * kPanel, row + r, some, column, width, slots);
        for (int64_t j = 0; j < some; ++j) {
          std::memcpy(p.out + (row + r + j) * p.n + column, from + j * kPanel,
                      static_cast<size_t>(width) * sizeof(float));
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/matmul_spec.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

HWY_EXPORT(MultiplyPanels);
using MultiplyFn = void (*)(const PackedProduct& product, int64_t begin, int64_t end);

struct PackedSpec {
  MatMulSpec product;
  RowProgram epilogue;
  size_t first_operand = 2;  // of the epilogue

  int64_t panels() const { return (product.n + kPanel - 1) / kPanel; }
  int64_t packed_bytes() const {
    return panels() * kPanel * product.k * static_cast<int64_t>(sizeof(float));
  }
  int64_t scratch_floats() const {
    return kBlockRows * kPanel +
           static_cast<int64_t>(epilogue.steps.size()) * kEpilogueRows * kPanel;
  }
};

// One B for all rows, f32, an epilogue that can be run.
std::optional<PackedSpec> PackedSpecOf(const NodeQuery& query) {
  if (!AllOf(query, DType::kF32) || !HasInput(query, 1)) return std::nullopt;
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return std::nullopt;
  const std::optional<MatMulSpec> spec = MatMulSpecOf(product->plain);
  if (!spec.has_value() || spec->batch.rank() != 0 || spec->alpha != 1) return std::nullopt;
  const std::optional<RowProgram> epilogue = RowProgramOf(*product);
  if (!epilogue.has_value()) return std::nullopt;
  // Columns of the result are those of the product.
  const Shape& result = product->plain.outputs[0]->shape;
  if (result[result.rank() - 1] != spec->n) return std::nullopt;
  return PackedSpec{*spec, *epilogue, product->first_operand};
}

std::optional<PackedSpec> PackerSpecOf(const NodeQuery& query) {
  if (query.op != kPrepack || query.attrs.Int("input", 0) != 1) return std::nullopt;
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(query.attrs.String("reader", ""));
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(*reader);
  if (!normal.ok()) return std::nullopt;
  return PackedSpecOf(*normal);
}

class PackedProductKernel final : public Kernel {
 public:
  PackedProductKernel(const PackedSpec& spec, size_t num_inputs, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(MultiplyPanels)),
        spec_(spec),
        threads_(threads),
        operands_(num_inputs > spec.first_operand ? num_inputs - spec.first_operand : 0) {
    const MatMulSpec& s = spec_.product;
    product_.m = s.m;
    product_.k = s.k;
    product_.n = s.n;
    product_.a_row_stride = s.transpose_a ? 1 : s.k;
    product_.a_k_stride = s.transpose_a ? s.m : 1;
    std::fill(std::begin(product_.ones), std::end(product_.ones), 1.0f);
    product_.steps = spec_.epilogue.steps.data();
    product_.num_steps = spec_.epilogue.steps.size();
    product_.result = spec_.epilogue.result;
    product_.operands = operands_.data();
  }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands_[i] = static_cast<const float*>(args.inputs[spec_.first_operand + i]);
    }
    const auto steps = static_cast<int64_t>(std::min(spec_.product.multiply_adds() / 8, 1e18));
    ParallelFor(threads_, spec_.panels(), steps, 1, [&](int64_t begin, int64_t end) {
      PackedProduct p = product_;
      p.a = static_cast<const float*>(args.inputs[0]);
      p.b = static_cast<const float*>(args.inputs[1]);
      p.out = static_cast<float*>(args.outputs[0]);
      p.scratch = static_cast<float*>(args.scratch) + TeamIndex() * spec_.scratch_floats();
      function_(p, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const MultiplyFn function_;
  const PackedSpec spec_;
  const int threads_;
  std::vector<const float*> operands_;  // of the epilogue
  PackedProduct product_;               // all but the addresses
};

// [k, n], or [n, k] when transposed, to panels of [k, kPanel]; columns that are not there are 0.
class PackPanelsKernel final : public Kernel {
 public:
  PackPanelsKernel(const PackedSpec& spec, int threads) : spec_(spec), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const float*>(args.inputs[0]);
    auto* to = static_cast<float*>(args.outputs[0]);
    const int64_t k = spec_.product.k;
    ParallelFor(threads_, spec_.panels(), spec_.panels() * kPanel * k, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) Pack(from, i, to + i * k * kPanel);
                });
    return absl::OkStatus();
  }

 private:
  void Pack(const float* from, int64_t panel, float* to) const {
    const MatMulSpec& s = spec_.product;
    const int64_t column = panel * kPanel, width = std::min(kPanel, s.n - column);
    const int64_t k_stride = s.transpose_b ? 1 : s.n, column_stride = s.transpose_b ? s.k : 1;
    for (int64_t l = 0; l < s.k; ++l, to += kPanel) {
      for (int64_t c = 0; c < width; ++c) {
        to[c] = from[l * k_stride + (column + c) * column_stride];
      }
      std::fill(to + width, to + kPanel, 0.0f);
    }
  }

  const PackedSpec spec_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery&, int) { return std::nullopt; }

std::vector<KernelVariant> More(const NodeQuery& query, int threads) {
  if (const auto spec = PackedSpecOf(query); spec.has_value()) {
    KernelVariant variant = DenseVariant(query, "packed");
    variant.in_layouts[1] = Layout::kPacked;
    variant.packed_bytes = spec->packed_bytes();
    variant.scratch_bytes = spec->scratch_floats() * threads * static_cast<int64_t>(sizeof(float));
    return {variant};
  }
  if (const auto spec = PackerSpecOf(query); spec.has_value()) {
    KernelVariant variant = DenseVariant(query, "packed");
    variant.out_layouts[0] = Layout::kPacked;
    variant.packed_bytes = spec->packed_bytes();
    return {variant};
  }
  return {};
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  if (const auto spec = PackerSpecOf(request.query); spec.has_value()) {
    return std::make_unique<PackPanelsKernel>(*spec, request.threads);
  }
  return std::make_unique<PackedProductKernel>(*PackedSpecOf(request.query),
                                               request.query.inputs.size(), request.threads);
}

}  // namespace

KernelFamily PackedProductFamily() { return {"packed", Match, Prepare, More}; }

}  // namespace millrace
#endif  // HWY_ONCE
