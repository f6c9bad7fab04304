// Descriptors are objects of our own behind the library's pointers. An algorithm is the number of
// the query that found it, so a call that uses it for another problem is seen. "doc:" names the
// section of the cuBLAS documentation, or the comment of cublasLt.h, that a rule comes from.
#include "tests/cuda_sim/cublaslt_recorder.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph/assert.h"
#include "graph/half.h"
#include "graph/strings.h"
#include "ops/scalar_functions.h"

namespace millrace {
namespace {

constexpr char kKernelName[] = "recorded_cublaslt_matmul";

struct RecordedDesc {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct RecordedLayout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t stride = 0;
  bool operator==(const RecordedLayout&) const = default;
};

struct RecordedPreference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

// What a heuristic was asked, and a product is: layouts of A, B, C, D.
struct RecordedProblem {
  RecordedDesc desc;
  RecordedLayout layouts[4];
  uint32_t alignment[4] = {};
  uint64_t workspace = 0;  // that the algorithm needs
};

// The parameter of the simulated kernel.
struct MatmulParams {
  RecordedProblem problem;
  double alpha = 1, beta = 0;
  CUdeviceptr a = 0, b = 0, c = 0, d = 0, bias = 0, workspace = 0;
  uint64_t workspace_bytes = 0;
};

struct RecordedHandle {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

}  // namespace

struct CublasLtRecorder::State {
  CudaSim* sim = nullptr;
  std::vector<std::string> violations, calls;
  std::vector<RecordedProblem> algorithms;
  int objects = 0;
  bool refuse_unaligned = false;

  void Expect(bool holds, std::string_view rule, std::string_view doc) {
    if (!holds) violations.push_back(StrCat(rule, " (doc: ", doc, ")"));
  }
};

namespace {

CublasLtRecorder::State* g_recorder = nullptr;

template <typename Object, typename Handle>
Object& As(Handle handle) {
  return *reinterpret_cast<Object*>(handle);
}
template <typename Object, typename Handle>
void Make(Handle* handle, Object object = {}) {
  *handle = reinterpret_cast<Handle>(new Object(std::move(object)));
  ++g_recorder->objects;
}
template <typename Object, typename Handle>
cublasStatus_t Drop(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  --g_recorder->objects;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
bool Take(const void* from, size_t bytes, T& to) {
  g_recorder->Expect(bytes == sizeof(T), "an attribute has another size",
                     "cublasLt.h, Set*Attribute, sizeInBytes");
  if (bytes != sizeof(T)) return false;
  std::memcpy(&to, from, sizeof(T));
  return true;
}

// --- Numbers -------------------------------------------------------------------------------------

int64_t BytesOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

double ElementAt(const std::byte* data, cudaDataType_t type, int64_t i) {
  const auto at = [&](auto zero) {
    std::memcpy(&zero, data + i * static_cast<int64_t>(sizeof(zero)), sizeof(zero));
    return static_cast<double>(zero);
  };
  switch (type) {
    case CUDA_R_64F:
      return at(double{});
    case CUDA_R_32F:
      return at(float{});
    case CUDA_R_16F:
      return at(Half());
    default:
      return at(BFloat16());
  }
}

void SetElement(std::byte* data, cudaDataType_t type, int64_t i, double value) {
  const auto put = [&](auto element) {
    std::memcpy(data + i * static_cast<int64_t>(sizeof(element)), &element, sizeof(element));
  };
  switch (type) {
    case CUDA_R_64F:
      return put(value);
    case CUDA_R_32F:
      return put(static_cast<float>(value));
    case CUDA_R_16F:
      return put(Half(static_cast<float>(value)));
    default:
      return put(BFloat16(static_cast<float>(value)));
  }
}

// From the first element to the last.
int64_t ExtentOf(const RecordedLayout& layout) {
  const int64_t matrix =
      layout.ld * (static_cast<int64_t>(layout.columns) - 1) + static_cast<int64_t>(layout.rows);
  return (matrix + (layout.batch - 1) * layout.stride) * BytesOf(layout.type);
}

int64_t PlaceIn(const RecordedLayout& layout, int64_t batch, int64_t row, int64_t column) {
  return batch * layout.stride + column * layout.ld + row;
}

double Activated(uint32_t epilogue, double x) {
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return std::max(x, 0.0);
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) return GeluTanhOf(x);
  return x;
}

bool HasBias(const RecordedDesc& desc) { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }

std::vector<SimAccess> MatmulAccesses(const MatmulParams& p) {
  const auto& [a, b, c, d] = p.problem.layouts;
  std::vector<SimAccess> accesses = {
      {p.a, ExtentOf(a), false}, {p.b, ExtentOf(b), false}, {p.d, ExtentOf(d), true}};
  if (p.beta != 0) accesses.push_back({p.c, ExtentOf(c), false});
  if (HasBias(p.problem.desc)) {
    accesses.push_back({p.bias, static_cast<int64_t>(d.rows) * BytesOf(d.type), false});
  }
  if (p.workspace_bytes > 0) {
    accesses.push_back({p.workspace, static_cast<int64_t>(p.workspace_bytes), true});
  }
  return accesses;
}

void Multiply(const MatmulParams& p, const SimLaunch& launch) {
  const auto& [la, lb, lc, ld] = p.problem.layouts;
  const RecordedDesc& desc = p.problem.desc;
  const std::byte* a = launch.Read(p.a, ExtentOf(la));
  const std::byte* b = launch.Read(p.b, ExtentOf(lb));
  const std::byte* c = p.beta != 0 ? launch.Read(p.c, ExtentOf(lc)) : nullptr;
  const std::byte* bias =
      HasBias(desc) ? launch.Read(p.bias, static_cast<int64_t>(ld.rows) * BytesOf(ld.type))
                    : nullptr;
  std::byte* d = launch.Write(p.d, ExtentOf(ld));
  const bool ta = desc.op_a == CUBLAS_OP_T, tb = desc.op_b == CUBLAS_OP_T;
  const auto depth = static_cast<int64_t>(ta ? la.rows : la.columns);
  for (int64_t batch = 0; batch < ld.batch; ++batch) {
    for (int64_t column = 0; column < static_cast<int64_t>(ld.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(ld.rows); ++row) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t in_a = ta ? PlaceIn(la, batch, k, row) : PlaceIn(la, batch, row, k);
          const int64_t in_b = tb ? PlaceIn(lb, batch, column, k) : PlaceIn(lb, batch, k, column);
          sum += ElementAt(a, la.type, in_a) * ElementAt(b, lb.type, in_b);
        }
        sum *= p.alpha;
        if (c != nullptr) sum += p.beta * ElementAt(c, lc.type, PlaceIn(lc, batch, row, column));
        if (bias != nullptr) sum += ElementAt(bias, ld.type, row);
        SetElement(d, ld.type, PlaceIn(ld, batch, row, column), Activated(desc.epilogue, sum));
      }
    }
  }
}

// --- Rules ---------------------------------------------------------------------------------------

void CheckLayouts(const RecordedDesc& desc, const RecordedLayout (&layouts)[4]) {
  CublasLtRecorder::State& r = *g_recorder;
  const auto& [a, b, c, d] = layouts;
  constexpr char kLd[] = "cublasLtMatrixLayoutAttribute_t, CUBLASLT_MATRIX_LAYOUT_LD";
  for (const RecordedLayout& layout : layouts) {
    r.Expect(layout.ld >= static_cast<int64_t>(layout.rows),
             "the leading dimension is less than the rows", kLd);
    r.Expect(layout.rows > 0 && layout.columns > 0, "a matrix is empty", kLd);
    r.Expect(layout.rows <= INT32_MAX && layout.columns <= INT32_MAX,
             "sizes do not fit into an int32_t",
             "cublasLt.h, CUBLASLT_MATRIX_LAYOUT_ROWS: usually only such values are supported");
  }
  const bool ta = desc.op_a == CUBLAS_OP_T, tb = desc.op_b == CUBLAS_OP_T;
  constexpr char kSizes[] = "cublasLtMatmul(): D = alpha op(A) op(B) + beta C";
  r.Expect((ta ? a.columns : a.rows) == d.rows, "op(A) has not the rows of D", kSizes);
  r.Expect((tb ? b.rows : b.columns) == d.columns, "op(B) has not the columns of D", kSizes);
  r.Expect((ta ? a.rows : a.columns) == (tb ? b.columns : b.rows), "inner sizes differ", kSizes);
  r.Expect(c.rows == d.rows && c.columns == d.columns, "C is not of the size of D", kSizes);
  constexpr char kBatch[] = "cublasLtMatrixLayoutAttribute_t, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT";
  r.Expect(a.batch == d.batch && b.batch == d.batch && c.batch == d.batch, "batch counts differ",
           kBatch);
  const int64_t matrix =
      d.ld * (static_cast<int64_t>(d.columns) - 1) + static_cast<int64_t>(d.rows);
  r.Expect(d.batch == 1 || d.stride >= matrix, "matrices of D overlap", kBatch);
}

void CheckTypes(const RecordedDesc& desc, const RecordedLayout (&layouts)[4]) {
  CublasLtRecorder::State& r = *g_recorder;
  constexpr char kTypes[] = "cublasLtMatmul(), table of supported types";
  const cudaDataType_t type = layouts[0].type;
  for (const RecordedLayout& layout : layouts) {
    r.Expect(layout.type == type, "types of matrices differ", kTypes);
  }
  const bool f64 = type == CUDA_R_64F;
  const bool known = f64 || type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
  r.Expect(known, "the type is not supported", kTypes);
  r.Expect(desc.compute == (f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F),
           "the compute type does not go with the matrices", kTypes);
  r.Expect(desc.scale == (f64 ? CUDA_R_64F : CUDA_R_32F),
           "the scale type does not go with the compute type", kTypes);
  r.Expect(!f64 || desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT, "f64 has no epilogues", kTypes);
  const uint32_t known_epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_RELU,
                                      CUBLASLT_EPILOGUE_BIAS,      CUBLASLT_EPILOGUE_GELU,
                                      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS};
  r.Expect(std::ranges::find(known_epilogues, desc.epilogue) != std::end(known_epilogues),
           "there is no such epilogue", "cublasLtEpilogue_t");
}

std::string DescribeCall(const RecordedProblem& p) {
  const auto& [a, b, c, d] = p.layouts;
  const char* type = d.type == CUDA_R_64F   ? "f64"
                     : d.type == CUDA_R_32F ? "f32"
                     : d.type == CUDA_R_16F ? "f16"
                                            : "bf16";
  const bool ta = p.desc.op_a == CUBLAS_OP_T, tb = p.desc.op_b == CUBLAS_OP_T;
  std::string epilogue = HasBias(p.desc) ? "bias" : "none";
  if ((p.desc.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) epilogue += "+relu";
  if ((p.desc.epilogue & CUBLASLT_EPILOGUE_GELU) != 0) epilogue += "+gelu";
  return StrCat(type, " n x k x m = ", d.rows, " x ", ta ? a.rows : a.columns, " x ", d.columns,
                ", op ", ta ? "T" : "N", tb ? "T" : "N", ", epilogue ", epilogue, ", batch ",
                d.batch);
}

// --- Entry points --------------------------------------------------------------------------------

const char* RecordedStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "a status";
}

cublasStatus_t RecordedCreate(cublasLtHandle_t* handle) {
  RecordedHandle made;
  const CudaDriver& driver = g_recorder->sim->driver();
  if (driver.ModuleLoadData(&made.module, CudaSim::ModuleImage()) != CUDA_SUCCESS ||
      driver.ModuleGetFunction(&made.function, made.module, kKernelName) != CUDA_SUCCESS) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  Make(handle, made);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RecordedDestroy(cublasLtHandle_t handle) {
  g_recorder->sim->driver().ModuleUnload(As<RecordedHandle>(handle).module);
  return Drop<RecordedHandle>(handle);
}

cublasStatus_t RecordedDescSet(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t what,
                               const void* value, size_t bytes) {
  auto& desc = As<RecordedDesc>(handle);
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      Take(value, bytes, desc.op_a);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      Take(value, bytes, desc.op_b);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      Take(value, bytes, desc.epilogue);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      Take(value, bytes, desc.bias);
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RecordedLayoutSet(cublasLtMatrixLayout_t handle,
                                 cublasLtMatrixLayoutAttribute_t what, const void* value,
                                 size_t bytes) {
  auto& layout = As<RecordedLayout>(handle);
  switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      Take(value, bytes, layout.batch);
      break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      Take(value, bytes, layout.stride);
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RecordedPreferenceSet(cublasLtMatmulPreference_t handle,
                                     cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                     size_t bytes) {
  auto& preference = As<RecordedPreference>(handle);
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      Take(value, bytes, preference.workspace);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      Take(value, bytes, preference.alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

RecordedProblem ProblemOf(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                          cublasLtMatrixLayout_t d) {
  RecordedProblem problem;
  problem.desc = As<RecordedDesc>(desc);
  problem.layouts[0] = As<RecordedLayout>(a);
  problem.layouts[1] = As<RecordedLayout>(b);
  problem.layouts[2] = As<RecordedLayout>(c);
  problem.layouts[3] = As<RecordedLayout>(d);
  CheckLayouts(problem.desc, problem.layouts);
  CheckTypes(problem.desc, problem.layouts);
  return problem;
}

cublasStatus_t RecordedHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                 cublasLtMatmulPreference_t handle, int wanted,
                                 cublasLtMatmulHeuristicResult_t* found, int* count) {
  const auto& preference = As<RecordedPreference>(handle);
  RecordedProblem problem = ProblemOf(desc, a, b, c, d);
  std::ranges::copy(preference.alignment, problem.alignment);
  problem.workspace = std::min<uint64_t>(preference.workspace, 4096);
  *count = 0;
  if (g_recorder->refuse_unaligned && problem.alignment[0] < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  g_recorder->Expect(wanted > 0, "no algorithm is asked for", "cublasLtMatmulAlgoGetHeuristic()");
  *found = {};
  found->algo.data[0] = g_recorder->algorithms.size();
  found->workspaceSize = problem.workspace;
  found->state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  g_recorder->algorithms.push_back(problem);
  return CUBLAS_STATUS_SUCCESS;
}

void CheckAlgorithm(const MatmulParams& p, const cublasLtMatmulAlgo_t* algo) {
  CublasLtRecorder::State& r = *g_recorder;
  if (algo == nullptr || algo->data[0] >= r.algorithms.size()) {
    return r.Expect(false, "the algorithm is none that was found", "cublasLtMatmul(), algo");
  }
  const RecordedProblem& found = r.algorithms[algo->data[0]];
  const bool same = std::ranges::equal(found.layouts, p.problem.layouts) &&
                    found.desc.op_a == p.problem.desc.op_a &&
                    found.desc.op_b == p.problem.desc.op_b &&
                    found.desc.epilogue == p.problem.desc.epilogue;
  r.Expect(same, "the algorithm was found for another product", "cublasLtMatmul(), algo");
  r.Expect(p.workspace_bytes >= found.workspace, "the workspace is too small",
           "cublasLt.h, cublasLtMatmul(), CUBLAS_STATUS_INVALID_VALUE");
  const CUdeviceptr operands[] = {p.a, p.b, p.c, p.d};
  for (int i = 0; i < 4; ++i) {
    r.Expect(operands[i] % found.alignment[i] == 0,
             "an operand is aligned to less than the algorithm was found for",
             "cublasLt.h, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES");
  }
}

double Scalar(const void* value, cudaDataType_t type) {
  return ElementAt(static_cast<const std::byte*>(value), type, 0);
}

cublasStatus_t RecordedMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t la, const void* b,
                              cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                              cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  CublasLtRecorder::State& r = *g_recorder;
  MatmulParams p;
  p.problem = ProblemOf(desc, la, lb, lc, ld);
  p.alpha = Scalar(alpha, p.problem.desc.scale);
  p.beta = Scalar(beta, p.problem.desc.scale);
  const auto address = [](const void* at) { return reinterpret_cast<CUdeviceptr>(at); };
  p.a = address(a);
  p.b = address(b);
  p.c = address(c);
  p.d = address(d);
  p.bias = address(p.problem.desc.bias);
  p.workspace = address(workspace);
  p.workspace_bytes = workspace_bytes;
  CheckAlgorithm(p, algo);
  r.Expect(p.c != p.d || p.problem.layouts[2] == p.problem.layouts[3],
           "C lies on D in another layout", "cublasLtMatmul(): in place");
  r.Expect(!HasBias(p.problem.desc) || p.bias != 0, "there is no bias for the epilogue",
           "cublasLtMatmulDescAttributes_t, CUBLASLT_MATMUL_DESC_BIAS_POINTER");
  r.Expect(p.workspace % 256 == 0, "the workspace is not aligned to 256 bytes",
           "cublasLtMatmul(), workspace");
  r.calls.push_back(DescribeCall(p.problem));
  void* values[] = {&p};
  const CUresult result =
      r.sim->driver().LaunchKernel(As<RecordedHandle>(handle).function, 1, 1, 1, 1, 1, 1, 0,
                                   reinterpret_cast<CUstream>(stream), values, nullptr);
  return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

CublasLtApi RecordedApi() {
  CublasLtApi api;
  api.GetStatusString = RecordedStatusString;
  api.Create = RecordedCreate;
  api.Destroy = RecordedDestroy;
  api.DescCreate = [](cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                      cudaDataType_t scale) {
    Make(desc, RecordedDesc{.compute = compute, .scale = scale});
    return CUBLAS_STATUS_SUCCESS;
  };
  api.DescDestroy = [](cublasLtMatmulDesc_t desc) { return Drop<RecordedDesc>(desc); };
  api.DescSetAttribute = RecordedDescSet;
  api.LayoutCreate = [](cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                        uint64_t columns, int64_t ld) {
    Make(layout, RecordedLayout{.type = type, .rows = rows, .columns = columns, .ld = ld});
    return CUBLAS_STATUS_SUCCESS;
  };
  api.LayoutDestroy = [](cublasLtMatrixLayout_t layout) { return Drop<RecordedLayout>(layout); };
  api.LayoutSetAttribute = RecordedLayoutSet;
  api.PreferenceCreate = [](cublasLtMatmulPreference_t* preference) {
    Make(preference, RecordedPreference());
    return CUBLAS_STATUS_SUCCESS;
  };
  api.PreferenceDestroy = [](cublasLtMatmulPreference_t preference) {
    return Drop<RecordedPreference>(preference);
  };
  api.PreferenceSetAttribute = RecordedPreferenceSet;
  api.GetHeuristic = RecordedHeuristic;
  api.Matmul = RecordedMatmul;
  return api;
}

}  // namespace

CublasLtRecorder::CublasLtRecorder(CudaSim& sim) : state_(std::make_unique<State>()) {
  MILLRACE_CHECK(g_recorder == nullptr);  // one at a time
  g_recorder = state_.get();
  state_->sim = &sim;
  SimKernel kernel;
  kernel.param_bytes = {sizeof(MatmulParams)};
  kernel.accesses = [](const SimLaunch& l) { return MatmulAccesses(l.Param<MatmulParams>(0)); };
  kernel.run = [](const SimLaunch& l) {
    Multiply(l.Param<MatmulParams>(0), l);
    return CUDA_SUCCESS;
  };
  sim.RegisterKernel(kKernelName, std::move(kernel));
}

CublasLtRecorder::~CublasLtRecorder() {
  g_recorder = nullptr;
  if (state_->objects != 0) {
    state_->violations.push_back(StrCat(state_->objects, " objects were not destroyed"));
  }
  for (const std::string& each : state_->violations) {
    std::fprintf(stderr, "cuBLASLt: %s\n", each.c_str());
  }
  if (!state_->violations.empty()) std::abort();
}

const CublasLtApi& CublasLtRecorder::api() const {
  static const CublasLtApi api = RecordedApi();
  return api;
}

std::vector<std::string> CublasLtRecorder::TakeViolations() {
  return std::exchange(state_->violations, {});
}
const std::vector<std::string>& CublasLtRecorder::calls() const { return state_->calls; }
void CublasLtRecorder::RefuseUnaligned() { state_->refuse_unaligned = true; }

}  // namespace millrace
