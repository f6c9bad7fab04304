#include "ops/cuda/cuda_target.h"

#include "ops/cuda/cuda_families.h"
#include "ops/kernel_query.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// Nothing to do.
std::optional<CudaWork> EmptyWork(const NodeQuery& query) {
  return GivesNothing(query) ? std::optional(CudaWork()) : std::nullopt;
}

// What the family does, for queries that it can be asked about.
std::optional<CudaWork> WorkOf(const CudaFamily& family, const NodeQuery& query) {
  if (family.work != EmptyWork && GivesNothing(query)) return std::nullopt;
  return family.work(query);
}

}  // namespace

std::string FunctionNameOf(std::string_view op) {
  std::string name;
  for (size_t i = 0; i < op.size(); ++i) {
    const char c = op[i];
    const bool upper = c >= 'A' && c <= 'Z';
    const bool starts_word = upper && i > 0 && op[i - 1] >= 'a' && op[i - 1] <= 'z';
    if (starts_word) name += '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c == '.' ? '_' : c;
  }
  return name;
}

std::span<const CudaFamily> CudaFamilies() {
  // One a line, so that a line does not change with its neighbours.
  // clang-format off
  static const CudaFamily kFamilies[] = {
      {"empty", EmptyWork},
      CudaProgramFamily(),
      CudaMoveFamily(),
      CudaOptimizerFamily(),
      CudaPoolFamily(),
      CudaLibraryMatMulFamily(),
      CudaLibraryConvolutionFamily(),
      CudaGatherFamily(),
      CudaRandomFamily(),
      CudaContractionFamily(),
  };
  // clang-format on
  return kFamilies;
}

std::vector<KernelVariant> CudaTarget::Variants(const NodeQuery& query) const {
  std::vector<KernelVariant> variants;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(query);
  if (!normal.ok()) return variants;
  const OpDef& op = *FindOp(query.op);
  for (const CudaFamily& family : CudaFamilies()) {
    if (op.traits.host_call) break;
    const std::optional<CudaWork> work = WorkOf(family, *normal);
    if (!work.has_value()) continue;
    KernelVariant variant = DenseVariant(*normal, std::string(family.name));
    variant.scratch_bytes = work->scratch_bytes;
    variants.push_back(std::move(variant));
  }
  KernelVariant host = DenseVariant(*normal, "reference");
  host.on_host = true;
  host.capturable = false;
  host.deterministic = op.traits.deterministic;
  variants.push_back(std::move(host));
  return variants;
}

std::optional<CudaWork> CudaWorkFor(const NodeQuery& query, std::string_view variant) {
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(query);
  if (!normal.ok()) return std::nullopt;
  for (const CudaFamily& family : CudaFamilies()) {
    if (family.name == variant) return WorkOf(family, *normal);
  }
  return std::nullopt;
}

}  // namespace millrace
