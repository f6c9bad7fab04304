// Both answers of the backend come from one walk over the ordered list of families. Prepare asks
// the family again for what it offered, so a plan can run no kernel that the target would not
// offer, and an edited plan with types that do not fit is refused here.
#include "ops/cpu/cpu_kernels.h"

#include <algorithm>
#include <utility>

#include "graph/strings.h"
#include "ops/cpu/cpu_target.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/onednn.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {

std::span<const KernelFamily> CpuKernelFamilies() {
  static const KernelFamily kFamilies[] = {
      EmptyFamily(),         CopyFamily(),          TransposeFamily(),     JoinFamily(),
      GatherFamily(),        MapCopyFamily(),       SimdUnaryFamily(),     SimdBinaryFamily(),
      LoopBinaryFamily(),    SimdWhereFamily(),     SimdSoftmaxFamily(),   SimdLayerNormFamily(),
      SimdBatchNormFamily(), SimdGroupNormFamily(), SimdReduceFamily(),    SmallMatMulFamily(),
      SmallConvFamily(),     SimdPoolFamily(),      SimdOptimizerFamily(), SimdLabelLossFamily(),
      LoopGradPoolFamily(),  OneDnnFamily(),        ReferenceFamily(),
  };
  return kFamilies;
}

absl::StatusOr<NodeQuery> NormalizeQuery(const NodeQuery& query) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr) return BadInputError(StrCat("unknown op '", query.op, "'"));
  if (op->reference == nullptr) return BadInputError(StrCat(op->name, " is no kernel's work"));
  NodeQuery normal = query;
  std::vector<SignatureFault> faults;
  CheckAttrs(*op, normal.attrs, faults);
  std::vector<const TensorType*> inputs;
  for (const auto& type : query.inputs) inputs.push_back(type ? &*type : nullptr);
  CheckOperandCounts(*op, inputs, static_cast<int>(query.outputs.size()), faults);
  if (faults.empty()) CheckOperandTypes(*op, inputs, faults);
  if (!faults.empty()) return BadInputError(StrCat(op->name, ": ", faults[0].message));

  Attrs storage;
  if (const Attrs& filled = WithDefaults(*op, normal.attrs, storage); &filled != &normal.attrs) {
    normal.attrs = Attrs(filled);
  }
  if (!op->traits.host_inputs.empty()) return normal;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferOutputs(query, {}));
  for (size_t i = 0; i < query.outputs.size(); ++i) {
    if (!query.outputs[i].has_value() || *query.outputs[i] == types[i]) continue;
    return BadInputError(StrCat(op->name, ": output ", i, " is ", ToString(types[i]), ", not ",
                                ToString(*query.outputs[i])));
  }
  return normal;
}

KernelVariant DenseVariant(const NodeQuery& query, std::string name) {
  KernelVariant variant;
  variant.name = std::move(name);
  variant.in_layouts.assign(query.inputs.size(), Layout::kStrided);
  variant.out_layouts.assign(query.outputs.size(), Layout::kStrided);
  const Work work = WorkOf(query);
  variant.flops = work.flops;
  variant.bytes = work.bytes;
  return variant;
}

bool AllOf(const NodeQuery& query, DType dtype) {
  const auto fits = [&](const std::optional<TensorType>& type) {
    return !type.has_value() || type->dtype == dtype;
  };
  return std::all_of(query.inputs.begin(), query.inputs.end(), fits) &&
         std::all_of(query.outputs.begin(), query.outputs.end(), fits);
}

namespace {

// `is_empty`: GivesNothing(query).
std::optional<KernelVariant> Offer(const KernelFamily& family, const NodeQuery& query, int threads,
                                   bool is_empty) {
  const bool takes_empty =
      family.match == EmptyFamily().match || family.match == ReferenceFamily().match;
  if (!takes_empty && is_empty) return std::nullopt;
  return family.match(query, threads);
}

}  // namespace

std::vector<KernelVariant> CpuTarget::Variants(const NodeQuery& query) const {
  std::vector<KernelVariant> variants;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(query);
  if (!normal.ok()) return variants;
  const bool is_empty = GivesNothing(*normal);
  for (const KernelFamily& family : CpuKernelFamilies()) {
    std::optional<KernelVariant> variant = Offer(family, *normal, max_threads_, is_empty);
    if (!variant.has_value()) continue;
    // Scratch for the smallest team as well: some kernels choose another algorithm for it.
    if (max_threads_ > 1) {
      if (const auto alone = Offer(family, *normal, 1, is_empty); alone.has_value()) {
        variant->scratch_bytes = std::max(variant->scratch_bytes, alone->scratch_bytes);
      }
    }
    variants.push_back(*std::move(variant));
  }
  return variants;
}

namespace {

absl::Status NotOffered(const KernelRequest& request) {
  return InternalError(StrCat("the cpu backend offers no kernel '", request.variant, "' for ",
                              request.query.op, " with these types on this machine"));
}

bool IsDense(const OperandLayout& operand, const std::optional<TensorType>& type) {
  if (operand.layout != Layout::kStrided) return false;
  if (operand.strides.empty() || !type.has_value()) return true;
  const Shape dense = DenseStrides(type->shape);
  if (static_cast<int>(operand.strides.size()) != dense.rank()) return false;
  for (int d = 0; d < dense.rank(); ++d) {
    if (type->shape[d] > 1 && operand.strides[d] != dense[d]) return false;
  }
  return true;
}

// Every family of this backend wants dense operands.
absl::Status CheckLayouts(const KernelRequest& request) {
  const auto check = [&](const std::vector<OperandLayout>& layouts,
                         const std::vector<std::optional<TensorType>>& types) {
    for (size_t i = 0; i < layouts.size() && i < types.size(); ++i) {
      if (!IsDense(layouts[i], types[i])) return false;
    }
    return true;
  };
  if (check(request.inputs, request.query.inputs) &&
      check(request.outputs, request.query.outputs)) {
    return absl::OkStatus();
  }
  return InternalError(
      StrCat("kernel '", request.variant, "' of ", request.query.op, " takes dense operands only"));
}

class FamilyLibrary final : public KernelLibrary {
 public:
  explicit FamilyLibrary(std::span<const KernelFamily> families) : families_(families) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    MILLRACE_RETURN_IF_ERROR(CheckLayouts(request));
    KernelRequest normal = request;
    MILLRACE_ASSIGN_OR_RETURN(normal.query, NormalizeQuery(request.query));
    const std::string_view variant = request.variant;
    const std::string_view name = variant.substr(0, variant.find(':'));
    const bool is_empty = GivesNothing(normal.query);
    for (const KernelFamily& family : families_) {
      if (family.name != name) continue;
      std::optional<KernelVariant> offer = Offer(family, normal.query, normal.threads, is_empty);
      if (!offer.has_value() || offer->name != variant) continue;
      if (request.true_shapes && name != ReferenceFamily().name) break;
      // A team that wants more scratch than was planned gives way to a smaller one.
      while (offer.has_value() && offer->scratch_bytes > request.scratch_bytes) {
        if (normal.threads <= 1) {
          return InternalError(StrCat("kernel '", variant, "' of ", request.query.op, " needs ",
                                      offer->scratch_bytes, " bytes of scratch, not ",
                                      request.scratch_bytes));
        }
        offer = family.match(normal.query, --normal.threads);
      }
      if (!offer.has_value()) break;
      return family.prepare(normal);
    }
    return NotOffered(request);
  }

 private:
  std::span<const KernelFamily> families_;
};

}  // namespace

std::unique_ptr<KernelLibrary> CreateCpuKernelLibrary() {
  return std::make_unique<FamilyLibrary>(CpuKernelFamilies());
}

std::unique_ptr<KernelLibrary> CreateReferenceKernelLibrary() {
  return std::make_unique<FamilyLibrary>(CpuKernelFamilies().last(1));
}

}  // namespace millrace
