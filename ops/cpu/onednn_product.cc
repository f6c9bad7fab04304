// MatMul and Gemm in bf16 as oneDNN matmul primitives: products of bf16, sums of f32, rounded once.
// With AMX they reach some seven times the rate of f32. Weights that are packed already
// (fused.Prepack) are taken as they are; others the primitive packs at each run.
//
// Weights are packed as the primitive for that many rows wants them; batches of products are not
// packed. Left to the reference: batches that repeat one operand along some dims only, alpha and
// beta other than 1, and a C that is no row.
#include <algorithm>

#include "graph/strings.h"
#include "ops/matmul_spec.h"
#include "ops/cpu/onednn_families.h"
#include "ops/cpu/onednn_primitive.h"
#include "ops/cpu/team.h"
#include "ops/prepack.h"

namespace millrace {
namespace {

using Desc = dnnl::memory::desc;
constexpr dnnl::memory::data_type kBf16 = dnnl::memory::data_type::bf16;

// Operands as they lie in row-major order.
struct ProductDescs {
  Desc a, b, bias, result;
  bool has_bias = false;
};

struct Bf16Product {
  MatMulSpec spec;
  ProductDescs descs;
  bool packable() const { return spec.batch.rank() == 0; }
};

// [batch, rows, columns], stored transposed or not; without a batch two dims.
Desc MatrixDesc(int64_t batch, bool repeated, int64_t rows, int64_t columns, bool transposed) {
  DnnlDims dims = {rows, columns};
  DnnlDims strides = transposed ? DnnlDims{1, rows} : DnnlDims{columns, 1};
  if (batch > 0) {
    dims.insert(dims.begin(), repeated ? 1 : batch);
    strides.insert(strides.begin(), rows * columns);
  }
  return {dims, kBf16, strides};
}

// All batches, or one for all; nullopt: something between.
std::optional<bool> IsRepeated(const Shape& own, const Shape& batch) {
  if (own == batch) return false;
  if (std::ranges::all_of(own, [](int64_t size) { return size == 1; })) return true;
  return std::nullopt;
}

std::optional<Bf16Product> Bf16ProductOf(const NodeQuery& query) {
  const std::optional<MatMulSpec> spec = MatMulSpecOf(query);
  if (!spec.has_value() || !AllOf(query, DType::kBF16)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const auto a = IsRepeated(spec->batch_a, spec->batch), b = IsRepeated(spec->batch_b, spec->batch);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  const MatMulSpec& s = *spec;
  if (s.alpha != 1) return std::nullopt;
  if (s.has_c && (s.beta != 1 || s.c_row_stride != 0 || s.c_column_stride != 1)) {
    return std::nullopt;
  }
  const int64_t batch = s.batch.rank() == 0 ? 0 : NumElements(s.batch);
  ProductDescs descs;
  descs.a = MatrixDesc(batch, *a, s.m, s.k, s.transpose_a);
  descs.b = MatrixDesc(batch, *b, s.k, s.n, s.transpose_b);
  descs.result = MatrixDesc(batch, false, s.m, s.n, false);
  descs.has_bias = s.has_c;
  if (s.has_c) descs.bias = MatrixDesc(0, false, 1, s.n, false);
  return Bf16Product{s, descs};
}

// Throws.
dnnl::matmul::primitive_desc PrimitiveOf(const ProductDescs& d, bool packed) {
  const Desc b = packed ? Desc(d.b.dims(), kBf16, dnnl::memory::format_tag::any) : d.b;
  const dnnl::matmul::desc desc = d.has_bias ? dnnl::matmul::desc(d.a, b, d.bias, d.result)
                                             : dnnl::matmul::desc(d.a, b, d.result);
  return {desc, UserScratchpad(), CpuEngine()};
}

PrimitiveOperands OperandsOf(const ProductDescs& d, const dnnl::matmul::primitive_desc& desc) {
  PrimitiveOperands operands;
  const Desc b = desc.weights_desc();
  operands.operands = {{DNNL_ARG_SRC, false, 0, d.a, d.a},
                       {DNNL_ARG_WEIGHTS, false, 1, b, b},
                       {DNNL_ARG_DST, true, 0, d.result, d.result}};
  if (d.has_bias) operands.operands.push_back({DNNL_ARG_BIAS, false, 2, d.bias, d.bias});
  operands.scratchpad = desc.scratchpad_desc();
  return operands;
}

std::optional<KernelVariant> OfferProduct(const NodeQuery& query, bool packed, int threads) {
  const std::optional<Bf16Product> product = Bf16ProductOf(query);
  if (!product.has_value() || (packed && !product->packable())) return std::nullopt;
  const ScopedTeamSize team(TeamFor(product->spec.multiply_adds(), threads));
  try {
    const auto desc = PrimitiveOf(product->descs, packed);
    if (std::string_view(desc.impl_info_str()).starts_with("ref")) return std::nullopt;
    KernelVariant variant = DenseVariant(query, OneDnnVariant());
    variant.scratch_bytes = OperandsOf(product->descs, desc).scratch_bytes();
    if (packed) {
      variant.in_layouts[1] = Layout::kPacked;
      variant.packed_bytes = static_cast<int64_t>(desc.weights_desc().get_size());
    }
    return variant;
  } catch (const dnnl::error&) {  // no implementation for these sizes, or this processor
    return std::nullopt;
  }
}

// The product whose weights a fused.Prepack packs.
std::optional<Bf16Product> PackedProductOf(const NodeQuery& query) {
  if (query.op != kPrepack || query.attrs.Int("input", 0) != 1) return std::nullopt;
  const absl::StatusOr<NodeQuery> reader = ParseQueryJson(query.attrs.String("reader", ""));
  if (!reader.ok()) return std::nullopt;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(*reader);
  if (!normal.ok()) return std::nullopt;
  const std::optional<Bf16Product> product = Bf16ProductOf(*normal);
  return product.has_value() && product->packable() ? product : std::nullopt;
}

dnnl::reorder::primitive_desc PackerOf(const Bf16Product& product) {
  const Desc to = PrimitiveOf(product.descs, /*packed=*/true).weights_desc();
  return {CpuEngine(), product.descs.b, CpuEngine(), to, UserScratchpad()};
}

PrimitiveOperands PackerOperands(const dnnl::reorder::primitive_desc& desc) {
  PrimitiveOperands operands;
  operands.operands = {{DNNL_ARG_FROM, false, 0, desc.src_desc(), desc.src_desc()},
                       {DNNL_ARG_TO, true, 0, desc.dst_desc(), desc.dst_desc()}};
  operands.scratchpad = desc.scratchpad_desc();
  return operands;
}

}  // namespace

std::optional<KernelVariant> MatchOneDnnProduct(const NodeQuery& query, int threads) {
  return OfferProduct(query, /*packed=*/false, threads);
}

std::vector<KernelVariant> MoreOneDnnProducts(const NodeQuery& query, int threads) {
  const std::optional<KernelVariant> packed = OfferProduct(query, /*packed=*/true, threads);
  return packed.has_value() ? std::vector{*packed} : std::vector<KernelVariant>();
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnProduct(const KernelRequest& request) {
  const Bf16Product product = *Bf16ProductOf(request.query);
  const bool packed = request.inputs.size() > 1 && request.inputs[1].layout == Layout::kPacked;
  const int threads = TeamFor(product.spec.multiply_adds(), request.threads);
  const ScopedTeamSize team(threads);
  try {
    const auto desc = PrimitiveOf(product.descs, packed);
    return std::make_unique<PrimitiveKernel>(dnnl::matmul(desc), OperandsOf(product.descs, desc),
                                             threads);
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
}

std::vector<KernelVariant> MoreOneDnnProductPacks(const NodeQuery& query, int threads) {
  const std::optional<Bf16Product> product = PackedProductOf(query);
  if (!product.has_value()) return {};
  const ScopedTeamSize team(threads);
  try {
    const auto desc = PackerOf(*product);
    KernelVariant variant = DenseVariant(query, OneDnnVariant());
    variant.out_layouts[0] = Layout::kPacked;
    variant.packed_bytes = static_cast<int64_t>(desc.dst_desc().get_size());
    variant.scratch_bytes = PackerOperands(desc).scratch_bytes();
    return {variant};
  } catch (const dnnl::error&) {
    return {};
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnProductPack(const KernelRequest& request) {
  const ScopedTeamSize team(request.threads);
  try {
    const auto desc = PackerOf(*PackedProductOf(request.query));
    return std::make_unique<PrimitiveKernel>(dnnl::reorder(desc), PackerOperands(desc),
                                             request.threads);
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
}

}  // namespace millrace
