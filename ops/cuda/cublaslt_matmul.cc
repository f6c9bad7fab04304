#include "ops/cuda/cublaslt_matmul.h"

#include <array>

#include "graph/strings.h"
#include "runtime/cuda/cuda_device.h"

namespace millrace {
namespace {

constexpr uint32_t kVectorAlignment = 16;

cudaDataType_t LibraryType(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

uint32_t EpilogueOf(const CudaMatMul& call) {
  uint32_t epilogue = 0;
  if (call.has_bias) epilogue |= CUBLASLT_EPILOGUE_BIAS;
  if (call.activation == CudaMatMul::Activation::kRelu) epilogue |= CUBLASLT_EPILOGUE_RELU;
  if (call.activation == CudaMatMul::Activation::kGeluTanh) epilogue |= CUBLASLT_EPILOGUE_GELU;
  return epilogue == 0 ? static_cast<uint32_t>(CUBLASLT_EPILOGUE_DEFAULT) : epilogue;
}

}  // namespace

absl::Status CublasLtMatMul::Check(cublasStatus_t status, const char* doing) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return DeviceError(StrCat("cuBLASLt: ", doing, " for a product of ", call_.m, " x ", call_.k,
                            " x ", call_.n, " in ", DTypeName(call_.dtype), ": ",
                            api_.GetStatusString(status)));
}

absl::StatusOr<std::shared_ptr<CublasLtHandle>> CublasLtHandle::Create(const CublasLtApi& api,
                                                                       Device& device) {
  MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
  std::shared_ptr<CublasLtHandle> handle(new CublasLtHandle(api, device));
  const cublasStatus_t status = api.Create(&handle->handle_);
  if (status == CUBLAS_STATUS_SUCCESS) return handle;
  handle->handle_ = nullptr;
  return DeviceError(
      StrCat(device.name(), ": cuBLASLt: making a handle: ", api.GetStatusString(status)));
}

CublasLtHandle::~CublasLtHandle() {
  if (handle_ != nullptr && MakeCudaDeviceCurrent(device_).ok()) api_.Destroy(handle_);
}

absl::StatusOr<std::unique_ptr<CublasLtMatMul>> CublasLtMatMul::Prepare(
    std::shared_ptr<CublasLtHandle> handle, const CudaMatMul& call) {
  std::unique_ptr<CublasLtMatMul> matmul(new CublasLtMatMul(std::move(handle), call));
  MILLRACE_RETURN_IF_ERROR(matmul->MakeDescriptors());
  MILLRACE_ASSIGN_OR_RETURN(matmul->aligned_, matmul->Choose(kVectorAlignment));
  MILLRACE_ASSIGN_OR_RETURN(matmul->any_,
                            matmul->Choose(static_cast<uint32_t>(SizeOf(call.dtype))));
  if (matmul->aligned_.has_value() || matmul->any_.has_value()) return matmul;
  return matmul->Check(CUBLAS_STATUS_NOT_SUPPORTED, "finding an algorithm");
}

CublasLtMatMul::~CublasLtMatMul() {
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    if (layout != nullptr) api_.LayoutDestroy(layout);
  }
  if (desc_ != nullptr) api_.DescDestroy(desc_);
}

absl::Status CublasLtMatMul::MakeLayout(cublasLtMatrixLayout_t* layout, int64_t rows,
                                        int64_t columns, int64_t stride) {
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.LayoutCreate(layout, LibraryType(call_.dtype), static_cast<uint64_t>(rows),
                              static_cast<uint64_t>(columns), rows),
            "describing a matrix"));
  if (call_.batch == 1) return absl::OkStatus();
  const auto count = static_cast<int32_t>(call_.batch);
  MILLRACE_RETURN_IF_ERROR(Check(
      api_.LayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
      "describing a batch"));
  return Check(api_.LayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &stride, sizeof(stride)),
               "describing a batch");
}

absl::Status CublasLtMatMul::MakeDescriptors() {
  const bool f64 = call_.dtype == DType::kF64;
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.DescCreate(&desc_, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                            f64 ? CUDA_R_64F : CUDA_R_32F),
            "describing a product"));
  const cublasOperation_t first = call_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = call_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const uint32_t epilogue = EpilogueOf(call_);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return Check(api_.DescSetAttribute(desc_, attribute, &value, sizeof(value)),
                 "describing a product");
  };
  MILLRACE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
  MILLRACE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, second));
  MILLRACE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  // Row-major [k, n] is column-major [n, k], and so on.
  const auto [m, n, k] = std::array{call_.m, call_.n, call_.k};
  MILLRACE_RETURN_IF_ERROR(call_.transpose_b ? MakeLayout(&first_, k, n, call_.b_stride)
                                             : MakeLayout(&first_, n, k, call_.b_stride));
  MILLRACE_RETURN_IF_ERROR(call_.transpose_a ? MakeLayout(&second_, m, k, call_.a_stride)
                                             : MakeLayout(&second_, k, m, call_.a_stride));
  return MakeLayout(&result_, n, m, m * n);
}

absl::StatusOr<std::optional<cublasLtMatmulAlgo_t>> CublasLtMatMul::Choose(
    uint32_t alignment) const {
  cublasLtMatmulPreference_t preference = nullptr;
  MILLRACE_RETURN_IF_ERROR(Check(api_.PreferenceCreate(&preference), "stating a preference"));
  const auto workspace = static_cast<uint64_t>(call_.workspace_bytes);
  cublasStatus_t status = api_.PreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (status != CUBLAS_STATUS_SUCCESS) break;
    status = api_.PreferenceSetAttribute(preference, attribute, &alignment, sizeof(alignment));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = api_.GetHeuristic(handle_->native(), desc_, first_, second_, result_, result_,
                               preference, 1, &found, &count);
  }
  api_.PreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  MILLRACE_RETURN_IF_ERROR(Check(status, "finding an algorithm"));
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return found.algo;
}

absl::Status CublasLtMatMul::Run(std::span<void* const> addresses, void* stream) {
  const auto [a, b, d] = std::array{addresses[0], addresses[1], addresses[2]};
  constexpr auto kAlignment = static_cast<uintptr_t>(CudaMatMul::kWorkspaceAlignment);
  const auto scratch = reinterpret_cast<uintptr_t>(addresses[3]);
  void* const workspace =
      static_cast<std::byte*>(addresses[3]) + (kAlignment - scratch % kAlignment) % kAlignment;
  size_t next = 4;
  void* const c = call_.has_c() ? addresses[next++] : d;
  bool aligned = aligned_.has_value();
  for (const void* address : {a, b, c, d}) {
    aligned = aligned && reinterpret_cast<uintptr_t>(address) % kVectorAlignment == 0;
  }
  if (!aligned && !any_.has_value()) {
    return Check(CUBLAS_STATUS_NOT_SUPPORTED, "finding an algorithm for unaligned operands");
  }
  if (call_.has_bias) {
    void* const bias = addresses[next];
    MILLRACE_RETURN_IF_ERROR(
        Check(api_.DescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
              "giving the bias"));
  }
  const double alpha64 = call_.alpha, beta64 = call_.beta;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool f64 = call_.dtype == DType::kF64;
  const void* alpha = f64 ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = f64 ? static_cast<const void*>(&beta64) : &beta32;
  return Check(
      api_.Matmul(handle_->native(), desc_, alpha, b, first_, a, second_, beta, c, result_, d,
                  result_, aligned ? &*aligned_ : &*any_, workspace,
                  static_cast<size_t>(call_.workspace_bytes), static_cast<cudaStream_t>(stream)),
      "launching");
}

}  // namespace millrace
