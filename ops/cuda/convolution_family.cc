// Conv, its two gradients and fused.Conv as calls of cuDNN. A bias, a residual and Relu after them
// are the library's; any other epilogue is a launch of its own, on the plain result in scratch.
#include <algorithm>

#include "ops/convolution.h"
#include "ops/cuda/cuda_families.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

constexpr int64_t kConvolutionWorkspace = int64_t{32} << 20;
constexpr int64_t kMaxCudnnElements = (int64_t{1} << 31) - 1;

// [N, C, spatial...] with at least two spatial dims, from the window's last ones.
std::vector<int64_t> WithSpatialDims(int64_t first, int64_t second, const Spatial& spatial,
                                     int dims) {
  std::vector<int64_t> all = {first, second};
  all.insert(all.end(), spatial.end() - dims, spatial.end());
  return all;
}

int64_t ProductOfDims(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

// nullopt: the library does not see it so (pads that differ by side, sizes of 64 bits, f64).
std::optional<CudaConvolution> ConvolutionCallOf(const Convolution& conv, DType dtype,
                                                 CudaConvolution::Kind kind) {
  const Window& window = conv.window;
  const int dims = std::max(2, window.rank);
  CudaConvolution call;
  call.kind = kind;
  call.dtype = dtype;
  if (dtype == DType::kF64) return std::nullopt;
  call.x = WithSpatialDims(conv.batch, conv.group * conv.in_channels, window.in, dims);
  call.w = WithSpatialDims(conv.group * conv.out_channels, conv.in_channels, window.kernel, dims);
  call.y = WithSpatialDims(conv.batch, conv.group * conv.out_channels, window.out, dims);
  const auto last = [&](const Spatial& all) {
    return std::vector<int64_t>(all.end() - dims, all.end());
  };
  call.pads = last(window.pads_begin);
  call.strides = last(window.strides);
  call.dilations = last(window.dilations);
  call.groups = conv.group;
  call.workspace_bytes = kConvolutionWorkspace;
  for (int d = 0; d < dims; ++d) {
    const auto at = static_cast<size_t>(d);
    const int64_t reach = (call.w[at + 2] - 1) * call.dilations[at] + 1;
    const int64_t room = call.x[at + 2] + 2 * call.pads[at] - reach;
    if (room < 0 || room / call.strides[at] + 1 != call.y[at + 2]) return std::nullopt;
  }
  for (const auto* each : {&call.x, &call.w, &call.y}) {
    const int64_t elements = ProductOfDims(*each);
    if (elements == 0 || elements > kMaxCudnnElements) return std::nullopt;
  }
  return call;
}

CudaWork WorkOfConvolution(const CudaConvolution& call, std::vector<CudaParam> operands) {
  CudaLaunch launch;
  launch.function = "cudnn";
  launch.convolution = call;
  return LibraryWork(std::move(launch), std::move(operands), call.workspace_bytes,
                     CudaConvolution::kWorkspaceAlignment);
}

std::optional<CudaWork> PlainConvolutionWork(const NodeQuery& query) {
  using Kind = CudaConvolution::Kind;
  if (!HasOutput(query, 0) || query.inputs.size() < 2) return std::nullopt;
  const Shape &a = query.inputs[0]->shape, &b = query.inputs[1]->shape;
  const Shape& result = query.outputs[0]->shape;
  Kind kind = Kind::kForward;
  absl::StatusOr<Convolution> conv = InternalError("no convolution");
  if (query.op == "Conv") {
    conv = ConvolutionOf(query.attrs, a, b);
  } else if (query.op == "grad.ConvInput") {
    kind = Kind::kInput;
    conv = ConvolutionOf(query.attrs, result, b);
  } else if (query.op == "grad.ConvWeight") {
    kind = Kind::kWeight;
    conv = ConvolutionOf(query.attrs, a, result);
  }
  if (!conv.ok()) return std::nullopt;
  std::optional<CudaConvolution> call = ConvolutionCallOf(*conv, query.inputs[0]->dtype, kind);
  if (!call.has_value()) return std::nullopt;
  std::vector<CudaParam> operands = {InputParam(query, 0), InputParam(query, 1),
                                     OutputParam(query, 0)};
  if (kind == Kind::kForward && HasInput(query, 2)) {
    call->has_bias = true;
    operands.push_back(InputParam(query, 2));
  }
  return WorkOfConvolution(*call, std::move(operands));
}

// The program of: plain result, a residual or none, Relu or not.
FusedProgram ResidualProgram(const TensorType& plain, bool residual, bool residual_first,
                             bool relu) {
  FusedProgram p = ProgramOver(plain.shape);
  ScalarTerm value = LoadOperand(p, plain, plain.shape);
  if (residual) {
    const ScalarTerm other = LoadOperand(p, plain, plain.shape);
    std::vector<ScalarTerm> terms = {value, other};
    if (residual_first) std::ranges::reverse(terms);
    value = AppendNode({"Add", {}, {plain, plain}, {plain}}, terms);
  }
  if (relu) value = AppendNode({"Relu", {}, {plain}, {plain}}, {{value}});
  StoreOutput(p, value);
  return p;
}

// The call with the epilogue in it, where the library has the same: it does nothing without a bias.
std::optional<CudaConvolution> WithLibraryEpilogue(const FusedProduct& product,
                                                   CudaConvolution call) {
  const TensorType& plain = *product.plain.outputs[0];
  const bool residual = product.operands.size() == 1 && product.operands[0] == plain;
  if (!call.has_bias || product.operands.size() > (residual ? 1 : 0)) return std::nullopt;
  for (const bool relu : {false, true}) {
    for (const bool residual_first : {false, true}) {
      if (product.epilogue != ResidualProgram(plain, residual, residual_first, relu)) continue;
      call.has_residual = residual;
      call.relu = relu;
      return call;
    }
  }
  return std::nullopt;
}

std::optional<CudaWork> LibraryConvolutionWork(const NodeQuery& query) {
  if (query.op != "fused.Conv") return PlainConvolutionWork(query);
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return std::nullopt;
  std::optional<CudaWork> plain = PlainConvolutionWork(product->plain);
  if (!plain.has_value()) return std::nullopt;
  const std::optional<CudaConvolution> call =
      WithLibraryEpilogue(*product, *plain->launches[0].convolution);
  if (!call.has_value()) return WithEpilogue(*product, query, *std::move(plain), "conv");
  std::vector<CudaParam> operands = {InputParam(query, 0), InputParam(query, 1),
                                     OutputParam(query, 0)};
  if (call->has_bias) operands.push_back(InputParam(query, 2));
  if (call->has_residual) operands.push_back(InputParam(query, product->first_operand));
  return WorkOfConvolution(*call, std::move(operands));
}

}  // namespace

CudaFamily CudaLibraryConvolutionFamily() { return {"cudnn", LibraryConvolutionWork}; }

}  // namespace millrace
