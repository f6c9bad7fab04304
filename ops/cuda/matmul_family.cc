// MatMul, Gemm and fused.MatMul as calls of cuBLASLt. A bias of the columns and Relu or Gelu (by
// tanh) after it are the library's epilogues; any other epilogue is a launch of its own, on the
// plain result in scratch.
#include <algorithm>

#include "ops/cuda/cuda_families.h"
#include "ops/fused_product.h"
#include "ops/matmul_spec.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

// What NVIDIA recommends for its latest GPUs; small products have no use for it.
constexpr int64_t kLargeWorkspace = int64_t{32} << 20, kSmallWorkspace = int64_t{1} << 20;
constexpr double kLargeProduct = 1e8;  // multiply-adds
constexpr int64_t kMaxLibrarySize = (int64_t{1} << 31) - 1;

// From one matrix of an operand to the next, where that is the same for all of the batch.
std::optional<int64_t> BatchStride(const Shape& own, const Shape& batch, int64_t matrix) {
  if (own == batch) return matrix;
  if (std::ranges::all_of(own, [](int64_t size) { return size == 1; })) return 0;
  return std::nullopt;
}

bool IsLibraryType(DType dtype) { return IsFloat(dtype); }

// How the library sees the product, without activation. nullopt: it does not.
std::optional<CudaMatMul> MatMulCallOf(const NodeQuery& query, const MatMulSpec& spec) {
  CudaMatMul call;
  call.dtype = query.inputs[0]->dtype;
  const bool fits = std::max({spec.m, spec.n, spec.k}) <= kMaxLibrarySize && spec.k > 0;
  if (!IsLibraryType(call.dtype) || !fits) return std::nullopt;
  call.m = spec.m;
  call.n = spec.n;
  call.k = spec.k;
  call.transpose_a = spec.transpose_a;
  call.transpose_b = spec.transpose_b;
  call.alpha = spec.alpha;
  for (const int64_t size : spec.batch) call.batch *= size;
  const std::optional<int64_t> a = BatchStride(spec.batch_a, spec.batch, spec.m * spec.k);
  const std::optional<int64_t> b = BatchStride(spec.batch_b, spec.batch, spec.k * spec.n);
  if (!a.has_value() || !b.has_value() || call.batch > kMaxLibrarySize) return std::nullopt;
  call.a_stride = *a;
  call.b_stride = *b;
  call.workspace_bytes = spec.multiply_adds() < kLargeProduct ? kSmallWorkspace : kLargeWorkspace;
  if (!spec.has_c) return call;
  const bool whole = spec.c_row_stride == spec.n && spec.c_column_stride == 1;
  const bool of_columns = spec.c_row_stride == 0 && spec.c_column_stride == 1 && spec.beta == 1;
  if (whole && spec.m > 1) {
    call.beta = spec.beta;
  } else if (call.dtype != DType::kF64 && (of_columns || (whole && spec.beta == 1))) {
    call.has_bias = true;
  } else {
    return std::nullopt;
  }
  return call;
}

CudaWork WorkOfMatMul(const CudaMatMul& call, std::vector<CudaParam> operands) {
  CudaLaunch launch;
  launch.function = "cublaslt";
  launch.matmul = call;
  return LibraryWork(std::move(launch), std::move(operands), call.workspace_bytes,
                     CudaMatMul::kWorkspaceAlignment);
}

std::optional<CudaWork> PlainMatMulWork(const NodeQuery& query) {
  const std::optional<MatMulSpec> spec = MatMulSpecOf(query);
  if (!spec.has_value()) return std::nullopt;
  const std::optional<CudaMatMul> call = MatMulCallOf(query, *spec);
  if (!call.has_value()) return std::nullopt;
  std::vector<CudaParam> operands = {InputParam(query, 0), InputParam(query, 1),
                                     OutputParam(query, 0)};
  if (spec->has_c) operands.push_back(InputParam(query, 2));
  return WorkOfMatMul(*call, std::move(operands));
}

// --- Epilogues -----------------------------------------------------------------------------------

NodeQuery Elementwise(std::string op, std::vector<std::optional<TensorType>> inputs,
                      const TensorType& result) {
  NodeQuery query{std::move(op), {}, std::move(inputs), {result}};
  if (query.op == "Gelu") query.attrs.Set("approximate", std::string("tanh"));
  return query;
}

// The program of: plain result, a bias of the columns or none, an activation or none.
FusedProgram EpilogueProgram(const TensorType& plain, const std::optional<TensorType>& bias,
                             bool bias_first, CudaMatMul::Activation activation) {
  FusedProgram p = ProgramOver(plain.shape);
  ScalarTerm value = LoadOperand(p, plain, plain.shape);
  if (bias.has_value()) {
    const ScalarTerm b = LoadOperand(p, *bias, plain.shape);
    std::vector<ScalarTerm> terms = {value, b};
    std::vector<std::optional<TensorType>> types = {plain, *bias};
    if (bias_first) {
      std::ranges::reverse(terms);
      std::ranges::reverse(types);
    }
    value = AppendNode(Elementwise("Add", types, plain), terms);
  }
  if (activation != CudaMatMul::Activation::kNone) {
    const bool relu = activation == CudaMatMul::Activation::kRelu;
    value = AppendNode(Elementwise(relu ? "Relu" : "Gelu", {plain}, plain), {{value}});
  }
  StoreOutput(p, value);
  return p;
}

// Whether `operand` is one number for each column of a row-major product.
bool IsOfColumns(const TensorType& operand, const TensorType& plain) {
  const int rank = plain.shape.rank();
  return rank > 0 && operand.dtype == plain.dtype &&
         NumElements(operand.shape) == plain.shape[rank - 1] && operand.shape.rank() > 0 &&
         operand.shape[operand.shape.rank() - 1] == plain.shape[rank - 1];
}

// The call with the epilogue in it, where the library has the same; in f64 it has none.
std::optional<CudaMatMul> WithLibraryEpilogue(const FusedProduct& product, CudaMatMul call) {
  using Activation = CudaMatMul::Activation;
  const TensorType& plain = *product.plain.outputs[0];
  std::optional<TensorType> bias;
  if (product.operands.size() > 1 || call.dtype == DType::kF64) return std::nullopt;
  if (product.operands.size() == 1) {
    const TensorType& operand = product.operands[0];
    // The library may not write its result over the bias, which the op's trait would allow.
    if (call.has_bias || operand == plain || !IsOfColumns(operand, plain)) return std::nullopt;
    bias = product.operands[0];
    call.has_bias = true;
  }
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
    for (const bool bias_first : {false, true}) {
      if (product.epilogue != EpilogueProgram(plain, bias, bias_first, activation)) continue;
      call.activation = activation;
      return call;
    }
  }
  return std::nullopt;
}

std::optional<CudaWork> LibraryMatMulWork(const NodeQuery& query) {
  if (query.op != "fused.MatMul") return PlainMatMulWork(query);
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return std::nullopt;
  std::optional<CudaWork> plain = PlainMatMulWork(product->plain);
  if (!plain.has_value()) return std::nullopt;
  const std::optional<CudaMatMul> call = WithLibraryEpilogue(*product, *plain->launches[0].matmul);
  if (!call.has_value()) return WithEpilogue(*product, query, *std::move(plain), "matmul");
  std::vector<CudaParam> operands = {InputParam(query, 0), InputParam(query, 1),
                                     OutputParam(query, 0)};
  for (size_t i = 2; i < product->plain.inputs.size(); ++i) {  // Gemm's C
    if (HasInput(product->plain, i)) operands.push_back(InputParam(query, i));
  }
  if (!product->operands.empty()) operands.push_back(InputParam(query, product->first_operand));
  return WorkOfMatMul(*call, std::move(operands));
}

}  // namespace

CudaFamily CudaLibraryMatMulFamily() { return {"cublaslt", LibraryMatMulWork}; }

}  // namespace millrace
