// Products, convolutions and attention by kernels of our own (device/matmul.cuh,
// device/convolution.cuh, device/attention.cuh). An epilogue is a launch of its own, on the plain
// result in scratch.
#include "graph/strings.h"
#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/cuda/cuda_families.h"
#include "ops/cuda/node_programs.h"
#include "ops/cuda/program_source.h"
#include "ops/cuda/scalar_source.h"
#include "ops/cuda/template_source.h"
#include "ops/fused_product.h"
#include "ops/matmul_spec.h"

namespace millrace {
namespace {

std::string F64Source(double value) { return ConstantSource(DType::kF64, value); }

// --- Products ------------------------------------------------------------------------------------

// Strides of an operand's matrices along the result's batch dims.
std::vector<int64_t> MatrixStrides(const MatMulSpec& spec, const Shape& own, int64_t matrix) {
  std::vector<int64_t> strides(static_cast<size_t>(spec.batch.rank()), 0);
  int64_t step = matrix;
  for (int d = own.rank(); d-- > 0;) {
    if (own[d] != 1) strides[static_cast<size_t>(d)] = step;
    step *= own[d];
  }
  return strides;
}

std::string MatMulSource(const MatMulSpec& s) {
  const std::vector<int64_t> batch(s.batch.begin(), s.batch.end());
  return StrCat("  constexpr MatMulShape kShape = {.m = ", s.m, ", .n = ", s.n, ", .k = ", s.k,
                ",\n      .a_row = ", s.transpose_a ? 1 : s.k,
                ", .a_column = ", s.transpose_a ? s.m : 1, ", .b_row = ", s.transpose_b ? 1 : s.n,
                ", .b_column = ", s.transpose_b ? s.k : 1, ",\n      .c_row = ", s.c_row_stride,
                ", .c_column = ", s.c_column_stride, ", .batch_rank = ", s.batch.rank(),
                ", .batch = ", ListSource(batch),
                ",\n      .a_batch = ", ListSource(MatrixStrides(s, s.batch_a, s.m * s.k)),
                ", .b_batch = ", ListSource(MatrixStrides(s, s.batch_b, s.k * s.n)), "};\n");
}

std::optional<CudaWork> PlainMatMulWork(const NodeQuery& query, std::string_view name) {
  const std::optional<MatMulSpec> spec = MatMulSpecOf(query);
  if (!spec.has_value()) return std::nullopt;
  constexpr int64_t kTile = 64;  // kMatMulTile
  TemplateCall call{.header = "matmul.cuh", .name = name, .callee = "MatMul<kShape>"};
  call.constants = MatMulSource(*spec);
  call.params = {InputOf(query, 0), InputOf(query, 1),
                 spec->has_c ? InputOf(query, 2) : Absent(query.inputs[0]->dtype),
                 OutputOf(query, 0)};
  call.more_arguments = StrCat(", ", F64Source(spec->alpha), ", ", F64Source(spec->beta));
  int64_t batch = 1;
  for (const int64_t size : spec->batch) batch *= size;
  call.blocks = (spec->m + kTile - 1) / kTile * ((spec->n + kTile - 1) / kTile) * batch;
  if (call.blocks > kMaxBlocks) return std::nullopt;
  CudaWork work;
  work.launches.push_back(LaunchOf(call));
  return work;
}

// --- Convolutions --------------------------------------------------------------------------------

std::string ConvolutionSource(const Convolution& conv) {
  return StrCat(
      "  constexpr ConvolutionShape kShape = {\n      .window = ", WindowSource(conv.window),
      ",\n      .batch = ", conv.batch, ", .groups = ", conv.group,
      ", .in_channels = ", conv.in_channels, ", .out_channels = ", conv.out_channels, "};\n");
}

TemplateParam BiasOf(const NodeQuery& query) {
  return HasInput(query, 2) ? InputOf(query, 2) : Absent(query.inputs[0]->dtype);
}

std::optional<CudaWork> PlainConvolutionWork(const NodeQuery& query, std::string_view name) {
  const std::string& op = query.op;
  TemplateCall call{.header = "convolution.cuh", .name = name};
  absl::StatusOr<Convolution> conv = InternalError("no convolution");
  if (op == "Conv") {
    conv = ConvolutionOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape);
    call.callee = "ConvolutionForward<kShape>";
    call.params = {InputOf(query, 0), InputOf(query, 1), BiasOf(query), OutputOf(query, 0)};
  } else if (op == "ConvTranspose") {
    conv = TransposedConvolutionOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape);
    call.callee = "ConvolutionInput<kShape>";
    call.params = {InputOf(query, 0), InputOf(query, 1), BiasOf(query), OutputOf(query, 0)};
  } else if (op == "grad.ConvInput") {
    conv = ConvolutionOf(query.attrs, query.outputs[0]->shape, query.inputs[1]->shape);
    call.callee = "ConvolutionInput<kShape>";
    call.params = {InputOf(query, 0), InputOf(query, 1), Absent(query.inputs[0]->dtype),
                   OutputOf(query, 0)};
  } else if (op == "grad.ConvWeight") {
    conv = ConvolutionOf(query.attrs, query.inputs[0]->shape, query.outputs[0]->shape);
    call.callee = "ConvolutionWeight<kShape>";
    call.params = {InputOf(query, 0), InputOf(query, 1), OutputOf(query, 0)};
  }
  if (!conv.ok()) return std::nullopt;
  call.constants = ConvolutionSource(*conv);
  const int64_t elements = NumElements(query.outputs[0]->shape);
  call.blocks = op == "grad.ConvWeight" ? elements : BlocksFor(elements);
  if (call.blocks > kMaxBlocks) return std::nullopt;
  CudaWork work;
  work.launches.push_back(LaunchOf(call));
  return work;
}

// --- Attention -----------------------------------------------------------------------------------

std::string HeadSource(const HeadStrides& s) {
  return StrCat("{", s.batch, ", ", s.head, ", ", s.token, "}");
}

std::optional<CudaWork> AttentionWork(const NodeQuery& query, std::string_view name) {
  const bool has_mask = HasInput(query, 3);
  const absl::StatusOr<AttentionForm> form =
      AttentionFormOf(query.attrs, query.inputs[0]->shape, query.inputs[1]->shape,
                      query.inputs[2]->shape, has_mask ? &query.inputs[3]->shape : nullptr);
  if (!form.ok()) return std::nullopt;
  constexpr int64_t kMaxValueSize = 1024;  // sums are in registers
  if (form->value_size > kMaxValueSize) return std::nullopt;
  TemplateCall call{.header = "attention.cuh", .name = name, .callee = "Attention<kShape>"};
  call.constants = StrCat(
      "  constexpr AttentionShape kShape = {.heads = ", form->heads,
      ", .heads_per_kv = ", form->heads / form->kv_heads, ", .queries = ", form->queries,
      ", .keys = ", form->keys, ",\n      .head_size = ", form->head_size,
      ", .value_size = ", form->value_size, ", .q = ", HeadSource(form->q),
      ", .k = ", HeadSource(form->k), ", .v = ", HeadSource(form->v),
      ", .y = ", HeadSource(form->y), ",\n      .mask_batch = ", form->mask_batch,
      ", .mask_head = ", form->mask_head, ", .mask_query = ", form->mask_query,
      ", .mask_key = ", form->mask_key, ", .causal = ", form->causal ? "true" : "false", "};\n");
  call.params = {InputOf(query, 0), InputOf(query, 1), InputOf(query, 2),
                 has_mask ? InputOf(query, 3) : Absent(query.inputs[0]->dtype), OutputOf(query, 0)};
  call.more_arguments = StrCat(", ", F64Source(form->scale));
  call.threads = 128;  // kAttentionThreads
  call.blocks = form->batch * form->heads * form->queries;
  if (call.blocks > kMaxBlocks) return std::nullopt;
  CudaWork work;
  work.launches.push_back(LaunchOf(call));
  return work;
}

// --- All of them ---------------------------------------------------------------------------------

std::optional<CudaWork> PlainWork(const NodeQuery& query, std::string_view name) {
  if (query.op == "fused.Attention") return AttentionWork(query, name);
  if (std::optional<CudaWork> work = PlainMatMulWork(query, name)) return work;
  return PlainConvolutionWork(query, name);
}

std::optional<CudaWork> ContractionWork(const NodeQuery& query) {
  const std::string name = FunctionNameOf(query.op);
  if (query.op != "fused.MatMul" && query.op != "fused.Conv") return PlainWork(query, name);
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return std::nullopt;
  std::optional<CudaWork> work = PlainWork(product->plain, name);
  if (!work.has_value()) return std::nullopt;
  return WithEpilogue(*product, query, *std::move(work), name);
}

}  // namespace

std::optional<CudaWork> WithEpilogue(const FusedProduct& product, const NodeQuery& query,
                                     CudaWork plain, std::string_view name) {
  const int64_t bytes = ByteSize(*product.plain.outputs[0]), at = plain.scratch_bytes;
  for (CudaLaunch& launch : plain.launches) {
    for (CudaParam& param : launch.params) {
      if (param.kind != CudaParam::Kind::kOutput) continue;
      param.kind = CudaParam::Kind::kScratch;
      param.offset_bytes = at;
    }
  }
  ProgramSteps steps;
  ProgramStep& step = steps.steps.emplace_back();
  step.program = product.epilogue;
  step.operands.push_back(ScratchParam(at, bytes, true, false));
  for (size_t i = 0; i < product.operands.size(); ++i) {
    step.operands.push_back(InputParam(query, product.first_operand + i));
  }
  step.outputs = {OutputParam(query, 0)};
  std::optional<CudaWork> epilogue = WorkOfSteps(std::move(steps), StrCat(name, "_epilogue"));
  if (!epilogue.has_value()) return std::nullopt;
  for (CudaLaunch& launch : epilogue->launches) plain.launches.push_back(std::move(launch));
  plain.scratch_bytes = at + (bytes + 255) / 256 * 256;
  return plain;
}

CudaFamily CudaContractionFamily() { return {"tiles", ContractionWork}; }

}  // namespace millrace
