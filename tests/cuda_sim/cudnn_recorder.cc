// Descriptors are objects of our own behind the library's pointers. "doc:" names the section of the
// cuDNN API reference that a rule comes from.
#include "tests/cuda_sim/cudnn_recorder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph/assert.h"
#include "graph/half.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr char kConvolutionKernel[] = "recorded_cudnn_convolution";
constexpr int kMaxDims = 5;

struct RecordedTensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;
  std::array<int, kMaxDims> dims{}, strides{};
  int64_t elements() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= dims[static_cast<size_t>(d)];
    return count;
  }
};

struct RecordedConvolution {
  int spatial = 0, groups = 1;
  std::array<int, 3> pads{}, strides{}, dilations{};
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

struct RecordedActivation {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
};

enum class Direction : uint8_t { kForward, kData, kFilter };

// The parameter of the simulated kernel. a and b are the operands, r the result.
struct ConvolutionParams {
  Direction direction = Direction::kForward;
  RecordedTensor x, w, y;
  RecordedConvolution conv;
  CUdeviceptr a = 0, b = 0, r = 0, bias = 0, residual = 0, workspace = 0;
  uint64_t workspace_bytes = 0;
  float residual_scale = 0;
  bool relu = false;
};

struct RecordedCudnn {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
};

}  // namespace

struct CudnnRecorder::State {
  CudaSim* sim = nullptr;
  std::vector<std::string> violations, calls;
  int objects = 0;

  void Expect(bool holds, std::string_view rule, std::string_view doc) {
    if (!holds) violations.push_back(StrCat(rule, " (doc: ", doc, ")"));
  }
};

namespace {

CudnnRecorder::State* g_cudnn = nullptr;

template <typename Object, typename Handle>
Object& Behind(Handle handle) {
  return *reinterpret_cast<Object*>(handle);
}
template <typename Object, typename Handle>
cudnnStatus_t New(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Object());
  ++g_cudnn->objects;
  return CUDNN_STATUS_SUCCESS;
}
template <typename Object, typename Handle>
cudnnStatus_t Delete(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  --g_cudnn->objects;
  return CUDNN_STATUS_SUCCESS;
}

// --- Numbers -------------------------------------------------------------------------------------

int64_t SizeOfType(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? 4 : 2; }
int64_t BytesOf(const RecordedTensor& t) { return t.elements() * SizeOfType(t.type); }

double ReadElement(const std::byte* data, cudnnDataType_t type, int64_t i) {
  const auto at = [&](auto element) {
    std::memcpy(&element, data + i * static_cast<int64_t>(sizeof(element)), sizeof(element));
    return static_cast<double>(element);
  };
  if (type == CUDNN_DATA_FLOAT) return at(float{});
  return type == CUDNN_DATA_HALF ? at(Half()) : at(BFloat16());
}

void WriteElement(std::byte* data, cudnnDataType_t type, int64_t i, double value) {
  const auto put = [&](auto element) {
    std::memcpy(data + i * static_cast<int64_t>(sizeof(element)), &element, sizeof(element));
  };
  const auto narrow = static_cast<float>(value);
  if (type == CUDNN_DATA_FLOAT) return put(narrow);
  type == CUDNN_DATA_HALF ? put(Half(narrow)) : put(BFloat16(narrow));
}

// f(x, w, y) with element numbers, for each combination that the convolution joins.
template <typename F>
void ForEachTerm(const ConvolutionParams& p, F&& f) {
  const int spatial = p.conv.spatial;
  const auto volume = [&](const RecordedTensor& t) {
    int64_t count = 1;
    for (int d = 0; d < spatial; ++d) count *= t.dims[static_cast<size_t>(d + 2)];
    return count;
  };
  const int64_t places = volume(p.y), taps = volume(p.w), positions = volume(p.x);
  const int64_t outs = p.y.dims[1], ins = p.w.dims[1], per_group = outs / p.conv.groups;
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t at = 0, step = 1, o = place, k = tap;
      bool inside = true;
      for (int d = spatial; d-- > 0;) {
        const auto i = static_cast<size_t>(d);
        const int64_t in = o % p.y.dims[i + 2] * p.conv.strides[i] - p.conv.pads[i] +
                           k % p.w.dims[i + 2] * p.conv.dilations[i];
        inside = inside && in >= 0 && in < p.x.dims[i + 2];
        at += in * step;
        step *= p.x.dims[i + 2];
        o /= p.y.dims[i + 2];
        k /= p.w.dims[i + 2];
      }
      if (!inside) continue;
      for (int64_t n = 0; n < p.x.dims[0]; ++n) {
        for (int64_t m = 0; m < outs; ++m) {
          for (int64_t c = 0; c < ins; ++c) {
            const int64_t channel = m / per_group * ins + c;
            f((n * p.x.dims[1] + channel) * positions + at, (m * ins + c) * taps + tap,
              (n * outs + m) * places + place);
          }
        }
      }
    }
  }
}

struct Roles {
  const RecordedTensor &a, &b, &r;
};
Roles RolesOf(const ConvolutionParams& p) {
  if (p.direction == Direction::kForward) return {p.x, p.w, p.y};
  if (p.direction == Direction::kData) return {p.y, p.w, p.x};
  return {p.x, p.y, p.w};
}

std::vector<SimAccess> ConvolutionAccesses(const ConvolutionParams& p) {
  const Roles roles = RolesOf(p);
  std::vector<SimAccess> accesses = {{p.a, BytesOf(roles.a), false},
                                     {p.b, BytesOf(roles.b), false},
                                     {p.r, BytesOf(roles.r), true},
                                     {p.workspace, static_cast<int64_t>(p.workspace_bytes), true}};
  if (p.bias != 0) accesses.push_back({p.bias, p.y.dims[1] * SizeOfType(p.y.type), false});
  if (p.residual_scale != 0) accesses.push_back({p.residual, BytesOf(p.y), false});
  return accesses;
}

void Convolve(const ConvolutionParams& p, const SimLaunch& launch) {
  const Roles roles = RolesOf(p);
  const std::byte* a = launch.Read(p.a, BytesOf(roles.a));
  const std::byte* b = launch.Read(p.b, BytesOf(roles.b));
  std::vector<double> sums(static_cast<size_t>(roles.r.elements()), 0);
  const cudnnDataType_t type = p.x.type;
  ForEachTerm(p, [&](int64_t x, int64_t w, int64_t y) {
    switch (p.direction) {
      case Direction::kForward:
        sums[static_cast<size_t>(y)] += ReadElement(a, type, x) * ReadElement(b, type, w);
        break;
      case Direction::kData:
        sums[static_cast<size_t>(x)] += ReadElement(a, type, y) * ReadElement(b, type, w);
        break;
      default:
        sums[static_cast<size_t>(w)] += ReadElement(a, type, x) * ReadElement(b, type, y);
    }
  });
  const std::byte* bias =
      p.bias != 0 ? launch.Read(p.bias, p.y.dims[1] * SizeOfType(type)) : nullptr;
  const std::byte* residual =
      p.residual_scale != 0 ? launch.Read(p.residual, BytesOf(p.y)) : nullptr;
  std::byte* result = launch.Write(p.r, BytesOf(roles.r));
  const int64_t places = p.y.elements() / p.y.dims[0] / p.y.dims[1];
  for (size_t i = 0; i < sums.size(); ++i) {
    double value = sums[i];
    const auto at = static_cast<int64_t>(i);
    if (residual != nullptr) value += p.residual_scale * ReadElement(residual, type, at);
    if (bias != nullptr) value += ReadElement(bias, type, at / places % p.y.dims[1]);
    WriteElement(result, type, at, p.relu ? std::max(value, 0.0) : value);
  }
}

// --- Rules ---------------------------------------------------------------------------------------

void CheckConvolution(const RecordedTensor& x, const RecordedTensor& w, const RecordedTensor& y,
                      const RecordedConvolution& conv) {
  CudnnRecorder::State& r = *g_cudnn;
  constexpr char kShape[] = "cudnnGetConvolutionNdForwardOutputDim()";
  r.Expect(x.rank == y.rank && x.rank == w.rank && x.rank == conv.spatial + 2, "ranks differ",
           "cudnnConvolutionForward(), CUDNN_STATUS_BAD_PARAM");
  r.Expect(x.type == y.type && x.type == w.type, "types differ",
           "cudnnConvolutionForward(), supported configurations");
  r.Expect(conv.compute == CUDNN_DATA_FLOAT, "the compute type does not go with the tensors",
           "cudnnConvolutionForward(), supported configurations");
  constexpr char kGroups[] = "cudnnSetConvolutionGroupCount()";
  r.Expect(conv.groups > 0 && w.dims[1] * conv.groups == x.dims[1],
           "the weights have not the channels of a group of X", kGroups);
  r.Expect(conv.groups > 0 && w.dims[0] % conv.groups == 0, "the results do not divide in groups",
           kGroups);
  r.Expect(y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0], "Y is not [N, K, ...]", kShape);
  for (int d = 0; d < conv.spatial; ++d) {
    const auto i = static_cast<size_t>(d);
    const int reach = (w.dims[i + 2] - 1) * conv.dilations[i] + 1;
    const int expected = 1 + (x.dims[i + 2] + 2 * conv.pads[i] - reach) / conv.strides[i];
    r.Expect(y.dims[i + 2] == expected, "Y has not the spatial dims that follow", kShape);
  }
  r.Expect(conv.math == (x.type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH),
           "f32 would be rounded to tf32, or tensor cores not used", "cudnnMathType_t");
}

cudnnStatus_t Launch(cudnnHandle_t handle, ConvolutionParams p, std::string call) {
  CudnnRecorder::State& r = *g_cudnn;
  CheckConvolution(p.x, p.w, p.y, p.conv);
  constexpr char kAligned[] = "cuDNN developer guide, tensor cores: 16 bytes; natural alignment";
  for (const CUdeviceptr at : {p.a, p.b, p.r, p.bias, p.residual}) {
    r.Expect(at % static_cast<CUdeviceptr>(SizeOfType(p.x.type)) == 0,
             "an operand is not aligned to its elements", kAligned);
  }
  r.calls.push_back(std::move(call));
  const auto& cudnn = Behind<RecordedCudnn>(handle);
  r.Expect(cudnn.stream != nullptr, "no stream was set", "cudnnSetStream()");
  void* values[] = {&p};
  const CUresult result = r.sim->driver().LaunchKernel(cudnn.function, 1, 1, 1, 1, 1, 1, 0,
                                                       cudnn.stream, values, nullptr);
  return result == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

float FloatAt(const void* value) {
  float scale;
  std::memcpy(&scale, value, sizeof(scale));
  return scale;
}
CUdeviceptr Address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

ConvolutionParams ParamsOf(Direction direction, const void* x, const void* w,
                           cudnnConvolutionDescriptor_t conv, const void* y, void* workspace,
                           size_t bytes) {
  ConvolutionParams p;
  p.direction = direction;
  p.x = Behind<RecordedTensor>(const_cast<void*>(x));
  p.w = Behind<RecordedTensor>(const_cast<void*>(w));
  p.y = Behind<RecordedTensor>(const_cast<void*>(y));
  p.conv = Behind<RecordedConvolution>(conv);
  p.workspace = Address(workspace);
  p.workspace_bytes = bytes;
  return p;
}

void ExpectOnce(const void* alpha, const void* beta) {
  g_cudnn->Expect(FloatAt(alpha) == 1 && FloatAt(beta) == 0, "results are not simply overwritten",
                  "alpha and beta, scaling parameters");
}

// --- Entry points --------------------------------------------------------------------------------

cudnnStatus_t RecordedCudnnCreate(cudnnHandle_t* handle) {
  New<RecordedCudnn>(handle);
  auto& made = Behind<RecordedCudnn>(*handle);
  const CudaDriver& driver = g_cudnn->sim->driver();
  if (driver.ModuleLoadData(&made.module, CudaSim::ModuleImage()) != CUDA_SUCCESS ||
      driver.ModuleGetFunction(&made.function, made.module, kConvolutionKernel) != CUDA_SUCCESS) {
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t RecordedCudnnDestroy(cudnnHandle_t handle) {
  g_cudnn->sim->driver().ModuleUnload(Behind<RecordedCudnn>(handle).module);
  return Delete<RecordedCudnn>(handle);
}

cudnnStatus_t SetTensor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int rank,
                        const int dims[], const int strides[]) {
  auto& tensor = Behind<RecordedTensor>(handle);
  g_cudnn->Expect(rank >= 4 && rank <= kMaxDims, "a tensor has fewer than four dims",
                  "cudnnSetTensorNdDescriptor(): at least 4 dims");
  tensor.type = type;
  tensor.rank = rank;
  int64_t dense = 1;
  for (int d = rank; d-- > 0;) {
    tensor.dims[static_cast<size_t>(d)] = dims[d];
    tensor.strides[static_cast<size_t>(d)] = strides[d];
    g_cudnn->Expect(dims[d] > 0, "a dim is not positive", "cudnnSetTensorNdDescriptor()");
    g_cudnn->Expect(strides[d] == dense, "a tensor is not dense",
                    "this recorder computes no other");
    dense *= dims[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetFilter(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                        cudnnTensorFormat_t format, int rank, const int dims[]) {
  auto& filter = Behind<RecordedTensor>(handle);
  g_cudnn->Expect(format == CUDNN_TENSOR_NCHW, "weights are not KCRS",
                  "cudnnSetFilterNdDescriptor(), format");
  filter.type = type;
  filter.rank = rank;
  std::copy_n(dims, rank, filter.dims.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetConvolution(cudnnConvolutionDescriptor_t handle, int spatial, const int pads[],
                             const int strides[], const int dilations[],
                             cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  auto& conv = Behind<RecordedConvolution>(handle);
  conv.spatial = spatial;
  conv.compute = compute;
  g_cudnn->Expect(spatial == 2 || spatial == 3, "there are neither two nor three spatial dims",
                  "cudnnSetConvolutionNdDescriptor(), arrayLength");
  g_cudnn->Expect(mode == CUDNN_CROSS_CORRELATION, "the kernel would be flipped",
                  "cudnnConvolutionMode_t");
  for (int d = 0; d < spatial; ++d) {
    const auto i = static_cast<size_t>(d);
    conv.pads[i] = pads[d];
    conv.strides[i] = strides[d];
    conv.dilations[i] = dilations[d];
    g_cudnn->Expect(pads[d] >= 0 && strides[d] > 0 && dilations[d] > 0,
                    "a pad is negative, or a stride or dilation not positive",
                    "cudnnSetConvolutionNdDescriptor(), CUDNN_STATUS_BAD_PARAM");
  }
  return CUDNN_STATUS_SUCCESS;
}

// The heuristics name one that is fast and not deterministic first.
template <typename Perf, typename Algo>
cudnnStatus_t Answer(const void* x, const void* w, cudnnConvolutionDescriptor_t conv, const void* y,
                     Algo fast, Algo steady, int wanted, int* count, Perf* found) {
  CheckConvolution(Behind<RecordedTensor>(const_cast<void*>(x)),
                   Behind<RecordedTensor>(const_cast<void*>(w)),
                   Behind<RecordedTensor>(const_cast<void*>(y)), Behind<RecordedConvolution>(conv));
  g_cudnn->Expect(wanted >= 2, "no choice of algorithms is asked for", "requestedAlgoCount");
  found[0] = {};
  found[0].algo = fast;
  found[0].determinism = CUDNN_NON_DETERMINISTIC;
  found[1] = {};
  found[1].algo = steady;
  found[1].determinism = CUDNN_DETERMINISTIC;
  found[1].memory = 1024;
  *count = 2;
  return CUDNN_STATUS_SUCCESS;
}

CudnnApi RecordedCudnnApi() {
  CudnnApi api;
  api.cudnnGetErrorString = [](cudnnStatus_t) { return "a status"; };
  api.cudnnCreate = RecordedCudnnCreate;
  api.cudnnDestroy = RecordedCudnnDestroy;
  api.cudnnSetStream = [](cudnnHandle_t handle, cudaStream_t stream) {
    Behind<RecordedCudnn>(handle).stream = reinterpret_cast<CUstream>(stream);
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnCreateTensorDescriptor = New<RecordedTensor, cudnnTensorDescriptor_t>;
  api.cudnnDestroyTensorDescriptor = Delete<RecordedTensor, cudnnTensorDescriptor_t>;
  api.cudnnSetTensorNdDescriptor = SetTensor;
  api.cudnnCreateFilterDescriptor = New<RecordedTensor, cudnnFilterDescriptor_t>;
  api.cudnnDestroyFilterDescriptor = Delete<RecordedTensor, cudnnFilterDescriptor_t>;
  api.cudnnSetFilterNdDescriptor = SetFilter;
  api.cudnnCreateActivationDescriptor = New<RecordedActivation, cudnnActivationDescriptor_t>;
  api.cudnnDestroyActivationDescriptor = Delete<RecordedActivation, cudnnActivationDescriptor_t>;
  api.cudnnSetActivationDescriptor = [](cudnnActivationDescriptor_t handle,
                                        cudnnActivationMode_t mode, cudnnNanPropagation_t, double) {
    Behind<RecordedActivation>(handle).mode = mode;
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnCreateConvolutionDescriptor = New<RecordedConvolution, cudnnConvolutionDescriptor_t>;
  api.cudnnDestroyConvolutionDescriptor = Delete<RecordedConvolution, cudnnConvolutionDescriptor_t>;
  api.cudnnSetConvolutionNdDescriptor = SetConvolution;
  api.cudnnSetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t handle, int groups) {
    Behind<RecordedConvolution>(handle).groups = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t handle, cudnnMathType_t math) {
    Behind<RecordedConvolution>(handle).math = math;
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnGetConvolutionForwardWorkspaceSize =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnFilterDescriptor_t,
         const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t,
         cudnnConvolutionFwdAlgo_t, size_t* bytes) {
        *bytes = 1024;
        return CUDNN_STATUS_SUCCESS;
      };
  api.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
         const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y, int wanted,
         int* count, cudnnConvolutionFwdAlgoPerf_t* found) {
        return Answer(x, w, conv, y, CUDNN_CONVOLUTION_FWD_ALGO_FFT,
                      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, wanted, count, found);
      };
  api.cudnnGetConvolutionBackwardDataAlgorithm_v7 =
      [](cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y,
         const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t x, int wanted,
         int* count, cudnnConvolutionBwdDataAlgoPerf_t* found) {
        return Answer(x, w, conv, y, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, wanted, count, found);
      };
  api.cudnnGetConvolutionBackwardFilterAlgorithm_v7 =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
         const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t w, int wanted,
         int* count, cudnnConvolutionBwdFilterAlgoPerf_t* found) {
        return Answer(x, w, conv, y, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, wanted, count, found);
      };
  api.cudnnConvolutionForward =
      [](cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xd, const void* x,
         const cudnnFilterDescriptor_t wd, const void* w, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionFwdAlgo_t, void* workspace, size_t bytes, const void* beta,
         const cudnnTensorDescriptor_t yd, void* y) {
        ExpectOnce(alpha, beta);
        ConvolutionParams p = ParamsOf(Direction::kForward, xd, wd, conv, yd, workspace, bytes);
        p.a = Address(x);
        p.b = Address(w);
        p.r = Address(y);
        return Launch(handle, p, "forward");
      };
  api.cudnnConvolutionBiasActivationForward =
      [](cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t xd, const void* x,
         const cudnnFilterDescriptor_t wd, const void* w, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionFwdAlgo_t algo, void* workspace, size_t bytes, const void* alpha2,
         const cudnnTensorDescriptor_t, const void* z, const cudnnTensorDescriptor_t bias_d,
         const void* bias, const cudnnActivationDescriptor_t activation,
         const cudnnTensorDescriptor_t yd, void* y) {
        constexpr char kDoc[] = "cudnnConvolutionBiasActivationForward()";
        const cudnnActivationMode_t mode = Behind<RecordedActivation>(activation).mode;
        const auto& per_channel = Behind<RecordedTensor>(bias_d);
        CudnnRecorder::State& r = *g_cudnn;
        r.Expect(FloatAt(alpha1) == 1, "the convolution is scaled", kDoc);
        r.Expect(mode == CUDNN_ACTIVATION_RELU || mode == CUDNN_ACTIVATION_IDENTITY,
                 "only Relu and the identity are supported", kDoc);
        r.Expect(mode != CUDNN_ACTIVATION_IDENTITY ||
                     algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                 "the identity needs IMPLICIT_PRECOMP_GEMM", kDoc);
        r.Expect(bias != nullptr && per_channel.dims[1] == Behind<RecordedTensor>(yd).dims[1] &&
                     per_channel.elements() == per_channel.dims[1],
                 "the bias is not [1, K, 1, ...]", kDoc);
        r.Expect(x != y, "x lies on y", kDoc);
        ConvolutionParams p = ParamsOf(Direction::kForward, xd, wd, conv, yd, workspace, bytes);
        p.a = Address(x);
        p.b = Address(w);
        p.r = Address(y);
        p.bias = Address(bias);
        p.residual = Address(z);
        p.residual_scale = FloatAt(alpha2);
        p.relu = mode == CUDNN_ACTIVATION_RELU;
        return Launch(handle, p,
                      StrCat("forward bias", p.residual_scale != 0 ? " residual" : "",
                             p.relu ? " relu" : ""));
      };
  api.cudnnConvolutionBackwardData =
      [](cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t wd, const void* w,
         const cudnnTensorDescriptor_t yd, const void* dy, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionBwdDataAlgo_t algo, void* workspace, size_t bytes, const void* beta,
         const cudnnTensorDescriptor_t xd, void* dx) {
        ExpectOnce(alpha, beta);
        g_cudnn->Expect(algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, "the algorithm adds atomically",
                        "cudnnConvolutionBwdDataAlgo_t: not deterministic");
        ConvolutionParams p = ParamsOf(Direction::kData, xd, wd, conv, yd, workspace, bytes);
        p.a = Address(dy);
        p.b = Address(w);
        p.r = Address(dx);
        return Launch(handle, p, "backward data");
      };
  api.cudnnConvolutionBackwardFilter =
      [](cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xd, const void* x,
         const cudnnTensorDescriptor_t yd, const void* dy, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionBwdFilterAlgo_t algo, void* workspace, size_t bytes, const void* beta,
         const cudnnFilterDescriptor_t wd, void* dw) {
        ExpectOnce(alpha, beta);
        g_cudnn->Expect(algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                        "the algorithm adds atomically",
                        "cudnnConvolutionBwdFilterAlgo_t: not deterministic");
        ConvolutionParams p = ParamsOf(Direction::kFilter, xd, wd, conv, yd, workspace, bytes);
        p.a = Address(x);
        p.b = Address(dy);
        p.r = Address(dw);
        return Launch(handle, p, "backward filter");
      };
  return api;
}

}  // namespace

CudnnRecorder::CudnnRecorder(CudaSim& sim) : state_(std::make_unique<State>()) {
  MILLRACE_CHECK(g_cudnn == nullptr);  // one at a time
  g_cudnn = state_.get();
  state_->sim = &sim;
  SimKernel kernel;
  kernel.param_bytes = {sizeof(ConvolutionParams)};
  kernel.accesses = [](const SimLaunch& l) {
    return ConvolutionAccesses(l.Param<ConvolutionParams>(0));
  };
  kernel.run = [](const SimLaunch& l) {
    Convolve(l.Param<ConvolutionParams>(0), l);
    return CUDA_SUCCESS;
  };
  sim.RegisterKernel(kConvolutionKernel, std::move(kernel));
}

CudnnRecorder::~CudnnRecorder() {
  g_cudnn = nullptr;
  if (state_->objects != 0) {
    state_->violations.push_back(StrCat(state_->objects, " objects were not destroyed"));
  }
  for (const std::string& each : state_->violations) {
    std::fprintf(stderr, "cuDNN: %s\n", each.c_str());
  }
  if (!state_->violations.empty()) std::abort();
}

const CudnnApi& CudnnRecorder::api() const {
  static const CudnnApi api = RecordedCudnnApi();
  return api;
}

std::vector<std::string> CudnnRecorder::TakeViolations() {
  return std::exchange(state_->violations, {});
}
const std::vector<std::string>& CudnnRecorder::calls() const { return state_->calls; }

}  // namespace millrace
