// The family of what oneDNN serves; a file for each group of ops (onednn_families.h).
#include "ops/cpu/onednn.h"

#ifndef MILLRACE_HAVE_ONEDNN

namespace millrace {

KernelFamily OneDnnFamily() {
  return {"onednn", [](const NodeQuery&, int) -> std::optional<KernelVariant> { return {}; },
          [](const KernelRequest&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
            return InternalError("built without oneDNN");
          }};
}

std::string_view OneDnnIsa() { return ""; }

}  // namespace millrace

#else

#include <algorithm>
#include <span>

#include "dnnl.hpp"
#include "ops/cpu/onednn_families.h"
#include "ops/prepack.h"

namespace millrace {

std::string_view OneDnnIsa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

namespace {

// Told apart by op and the type of the first operand.
struct OpGroup {
  std::span<const std::string_view> ops;
  DType dtype;
  std::optional<KernelVariant> (*match)(const NodeQuery& query, int threads);
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelRequest& request);
  std::vector<KernelVariant> (*more)(const NodeQuery& query, int threads) = nullptr;
};
constexpr std::string_view kConvs[] = {"Conv", "ConvTranspose", "fused.Conv", "grad.ConvInput",
                                       "grad.ConvWeight"};
constexpr std::string_view kProducts[] = {"Gemm", "MatMul"};
constexpr std::string_view kFusedProducts[] = {"fused.MatMul"};
constexpr std::string_view kRecurrent[] = {"GRU", "LSTM", "RNN", "grad.LSTM"};
constexpr std::string_view kPacks[] = {kPrepack};
std::optional<KernelVariant> MatchNone(const NodeQuery&, int) { return std::nullopt; }

absl::StatusOr<std::unique_ptr<Kernel>> PrepareProduct(const KernelRequest& request) {
  const bool packed = request.inputs.size() > 1 && request.inputs[1].layout == Layout::kPacked;
  return packed ? PrepareOneDnnFusedMatMul(request) : PrepareOneDnnMatMul(request);
}
// Weights of convolutions, and of products.
std::vector<KernelVariant> MorePacks(const NodeQuery& query, int threads) {
  const std::vector<KernelVariant> of_products = MoreOneDnnMatMulPacks(query, threads);
  return of_products.empty() ? MoreOneDnnPacks(query, threads) : of_products;
}
absl::StatusOr<std::unique_ptr<Kernel>> PreparePack(const KernelRequest& request) {
  const bool of_product = !MoreOneDnnMatMulPacks(request.query, request.threads).empty();
  return of_product ? PrepareOneDnnMatMulPack(request) : PrepareOneDnnPack(request);
}

constexpr OpGroup kGroups[] = {
    {kConvs, DType::kF32, MatchOneDnnConv, PrepareOneDnnConv, MoreOneDnnConv},
    {kPacks, DType::kF32, MatchNone, PreparePack, MorePacks},
    {kProducts, DType::kF32, MatchOneDnnMatMul, PrepareProduct, MoreOneDnnFusedMatMul},
    {kFusedProducts, DType::kF32, MatchOneDnnFusedMatMul, PrepareOneDnnFusedMatMul,
     MoreOneDnnFusedMatMul},
    {kProducts, DType::kBF16, MatchOneDnnProduct, PrepareOneDnnProduct, MoreOneDnnProducts},
    {kPacks, DType::kBF16, MatchNone, PrepareOneDnnProductPack, MoreOneDnnProductPacks},
    {kRecurrent, DType::kF32, MatchOneDnnRecurrent, PrepareOneDnnRecurrent},
};

const OpGroup* GroupOf(const NodeQuery& query) {
  if (!HasInput(query, 0)) return nullptr;
  for (const OpGroup& group : kGroups) {
    if (query.inputs[0]->dtype != group.dtype) continue;
    if (std::find(group.ops.begin(), group.ops.end(), query.op) != group.ops.end()) return &group;
  }
  return nullptr;
}

std::optional<KernelVariant> Match(const NodeQuery& query, int threads) {
  const OpGroup* group = GroupOf(query);
  return group == nullptr ? std::nullopt : group->match(query, threads);
}

std::vector<KernelVariant> More(const NodeQuery& query, int threads) {
  const OpGroup* group = GroupOf(query);
  if (group == nullptr || group->more == nullptr) return {};
  return group->more(query, threads);
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return GroupOf(request.query)->prepare(request);  // it matched
}

}  // namespace

KernelFamily OneDnnFamily() { return {"onednn", Match, Prepare, More}; }

}  // namespace millrace

#endif  // MILLRACE_HAVE_ONEDNN
