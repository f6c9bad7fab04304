// The ops that oneDNN serves, a file each: what onednn.cc asks.
#ifndef MILLRACE_OPS_CPU_ONEDNN_FAMILIES_H_
#define MILLRACE_OPS_CPU_ONEDNN_FAMILIES_H_

#include "ops/cpu/kernel_family.h"

namespace millrace {

// onednn_conv.cc: Conv, grad.ConvInput, grad.ConvWeight, ConvTranspose.
std::optional<KernelVariant> MatchOneDnnConv(const NodeQuery& query, int threads);
std::vector<KernelVariant> MoreOneDnnConv(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnConv(const KernelRequest& request);
// fused.Prepack of their weights.
std::vector<KernelVariant> MoreOneDnnPacks(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnPack(const KernelRequest& request);

// onednn_matmul.cc: MatMul, Gemm.
std::optional<KernelVariant> MatchOneDnnMatMul(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnMatMul(const KernelRequest& request);

// onednn_fused_matmul.cc: f32 fused.MatMul; MatMul and Gemm with packed weights (`More`, and
// `Prepare` then); fused.Prepack of these.
std::optional<KernelVariant> MatchOneDnnFusedMatMul(const NodeQuery& query, int threads);
std::vector<KernelVariant> MoreOneDnnFusedMatMul(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnFusedMatMul(const KernelRequest& request);
std::vector<KernelVariant> MoreOneDnnMatMulPacks(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnMatMulPack(const KernelRequest& request);

// onednn_product.cc: MatMul, Gemm in bf16; fused.Prepack of their weights.
std::optional<KernelVariant> MatchOneDnnProduct(const NodeQuery& query, int threads);
std::vector<KernelVariant> MoreOneDnnProducts(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnProduct(const KernelRequest& request);
std::vector<KernelVariant> MoreOneDnnProductPacks(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnProductPack(const KernelRequest& request);

// onednn_recurrent.cc: RNN, GRU, LSTM, grad.LSTM.
std::optional<KernelVariant> MatchOneDnnRecurrent(const NodeQuery& query, int threads);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneDnnRecurrent(const KernelRequest& request);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_FAMILIES_H_
