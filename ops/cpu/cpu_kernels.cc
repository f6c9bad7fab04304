// Both answers of the backend come from one walk over the ordered list of families. Prepare asks
// the family again for what it offered, so a plan can run no kernel that the target would not
// offer, and an edited plan with types that do not fit is refused here.
#include "ops/cpu/cpu_kernels.h"

#include <algorithm>
#include <utility>

#include "graph/channels_last.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_target.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/onednn.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {

std::span<const KernelFamily> CpuKernelFamilies() {
  // One a line, so that a line does not change with its neighbours.
  // clang-format off
  static const KernelFamily kFamilies[] = {
      EmptyFamily(),
      FusedProgramFamily(),
      SimdCastFamily(),
      CopyFamily(),
      TransposeFamily(),
      JoinFamily(),
      GatherFamily(),
      GradGatherFamily(),
      MapCopyFamily(),
      SimdUnaryFamily(),
      SimdBinaryFamily(),
      LoopBinaryFamily(),
      SimdWhereFamily(),
      SimdSoftmaxFamily(),
      SimdAttentionFamily(),
      SimdLayerNormFamily(),
      SimdBatchNormFamily(),
      SimdGroupNormFamily(),
      SimdReduceFamily(),
      SmallMatMulFamily(),
      SmallConvFamily(),
      SimdPoolFamily(),
      SimdPoolLastFamily(),
      ChannelsLastFamily(),
      SimdOptimizerFamily(),
      SimdLabelLossFamily(),
      LoopGradPoolFamily(),
      WinogradFamily(),
      OneDnnFamily(),
      ReferenceFamily(),
  };
  // clang-format on
  return kFamilies;
}

namespace {

// What the family offers for a team of exactly `threads`. `is_empty`: GivesNothing(query).
std::vector<KernelVariant> OffersOf(const KernelFamily& family, const NodeQuery& query, int threads,
                                    bool is_empty) {
  const bool takes_empty =
      family.match == EmptyFamily().match || family.match == ReferenceFamily().match;
  std::vector<KernelVariant> offers;
  if (!takes_empty && is_empty) return offers;
  if (family.more != nullptr) offers = family.more(query, threads);
  if (auto variant = family.match(query, threads)) offers.push_back(*std::move(variant));
  return offers;
}

bool SameLayouts(const KernelVariant& a, const KernelVariant& b) {
  return a.in_layouts == b.in_layouts && a.out_layouts == b.out_layouts;
}

}  // namespace

std::vector<KernelVariant> CpuTarget::Variants(const NodeQuery& query) const {
  std::vector<KernelVariant> variants;
  const absl::StatusOr<NodeQuery> normal = NormalizeQuery(query);
  if (!normal.ok()) return variants;
  const bool is_empty = GivesNothing(*normal);
  for (const KernelFamily& family : CpuKernelFamilies()) {
    std::vector<KernelVariant> offers = OffersOf(family, *normal, max_threads_, is_empty);
    if (offers.empty()) continue;
    // Scratch for the smallest team as well: some kernels choose another algorithm for it.
    const std::vector<KernelVariant> alone =
        max_threads_ > 1 ? OffersOf(family, *normal, 1, is_empty) : offers;
    for (KernelVariant& variant : offers) {
      for (const KernelVariant& other : alone) {
        if (!SameLayouts(variant, other)) continue;
        variant.scratch_bytes = std::max(variant.scratch_bytes, other.scratch_bytes);
      }
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

namespace {

absl::Status NotOffered(const KernelRequest& request) {
  return InternalError(StrCat("the cpu backend offers no kernel '", request.variant, "' for ",
                              request.query.op,
                              " with these types, and operands that lie so (dense, for most), on "
                              "this machine"));
}

bool IsDense(const OperandLayout& operand, const Shape& shape) {
  if (operand.layout != Layout::kStrided) return false;
  if (operand.strides.empty()) return true;
  const Shape dense = DenseStrides(shape);
  if (static_cast<int>(operand.strides.size()) != dense.rank()) return false;
  for (int d = 0; d < dense.rank(); ++d) {
    if (shape[d] > 1 && operand.strides[d] != dense[d]) return false;
  }
  return true;
}

// Whether the operand lies as a variant wants it.
bool LiesAs(Layout wanted, const OperandLayout& operand, const Shape& shape,
            const KernelVariant& variant) {
  if (wanted == Layout::kPacked || operand.layout == Layout::kPacked) {
    return wanted == operand.layout && operand.size_bytes >= variant.packed_bytes;
  }
  if (wanted == operand.layout && wanted == Layout::kNHWC) return true;
  const bool alike = (shape.rank() == 4 || shape.rank() == 5) && !HasChannelsLast(shape);
  if (operand.layout == Layout::kNHWC) return alike && wanted == Layout::kStrided;
  return IsDense(operand, shape) && (wanted == Layout::kStrided || alike);
}

bool AllLie(const std::vector<Layout>& wanted, const std::vector<OperandLayout>& operands,
            const std::vector<std::optional<TensorType>>& types, const KernelVariant& variant) {
  for (size_t i = 0; i < operands.size() && i < types.size(); ++i) {
    if (!types[i].has_value()) continue;
    if (!LiesAs(wanted[i], operands[i], types[i]->shape, variant)) return false;
  }
  return true;
}

// The family's way to do what is asked for, with a team of `threads`.
std::optional<KernelVariant> FindOffer(const KernelFamily& family, const KernelRequest& request,
                                       int threads) {
  const NodeQuery& query = request.query;
  for (KernelVariant& offer : OffersOf(family, query, threads, GivesNothing(query))) {
    if (offer.name == request.variant &&
        AllLie(offer.in_layouts, request.inputs, query.inputs, offer) &&
        AllLie(offer.out_layouts, request.outputs, query.outputs, offer)) {
      return std::move(offer);
    }
  }
  return std::nullopt;
}

class FamilyLibrary final : public KernelLibrary {
 public:
  explicit FamilyLibrary(std::span<const KernelFamily> families) : families_(families) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    KernelRequest normal = request;
    MILLRACE_ASSIGN_OR_RETURN(normal.query, NormalizeQuery(request.query));
    normal.inputs.resize(normal.query.inputs.size());
    normal.outputs.resize(normal.query.outputs.size());
    const std::string_view variant = request.variant;
    const std::string_view name = variant.substr(0, variant.find(':'));
    for (const KernelFamily& family : families_) {
      if (family.name != name) continue;
      std::optional<KernelVariant> offer = FindOffer(family, normal, normal.threads);
      if (!offer.has_value()) continue;
      if (request.true_shapes && name != ReferenceFamily().name) break;
      // A team that wants more scratch than was planned gives way to a smaller one.
      while (offer.has_value() && offer->scratch_bytes > request.scratch_bytes) {
        if (normal.threads <= 1) {
          return InternalError(StrCat("kernel '", variant, "' of ", request.query.op, " needs ",
                                      offer->scratch_bytes, " bytes of scratch, not ",
                                      request.scratch_bytes));
        }
        offer = FindOffer(family, normal, --normal.threads);
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
