// Kernels for operands whose channels lie last, by those for row-major ones: a channels-last value
// is a row-major one with its dims in another order, [N, spatial..., C]. Elementwise ops do not
// mind the order of dims; Concat and the mean over positions only need to be told. Operands that
// broadcast along leading dims get dims of 1 there first; what then lies alike either way (a value
// for each channel, a mask for each position) is taken as it is.
#include "graph/channels_last.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "nhwc";

// The families that do the work.
std::span<const KernelFamily> RowMajorFamilies() {
  static const KernelFamily kFamilies[] = {SimdUnaryFamily(),  SimdBinaryFamily(),
                                           LoopBinaryFamily(), SimdWhereFamily(),
                                           JoinFamily(),       SimdReduceFamily()};
  return kFamilies;
}

// A query in the order in which its operands lie, and which of them have their channels last.
struct LyingQuery {
  NodeQuery query;
  std::vector<Layout> in_layouts, out_layouts;
};

// Turns one operand's type; false where it is not of a layout that there is.
bool TurnOperand(int rank, std::optional<TensorType>& type, std::vector<Layout>& layouts) {
  layouts.push_back(Layout::kStrided);
  if (!type.has_value() || type->shape.rank() == 0) return true;
  Shape padded;
  for (int d = type->shape.rank(); d < rank; ++d) padded.push_back(1);
  for (int64_t d : type->shape) padded.push_back(d);
  if (HasChannelsLast(padded)) {
    if (type->shape.rank() != rank) return false;
    layouts.back() = Layout::kNHWC;
  }
  type->shape = ChannelsLastShape(padded);
  return true;
}

// The op's attributes in the new order; false for ops that have no such form.
bool TurnAttrs(int rank, NodeQuery& query) {
  if (query.op == "Concat") {
    int64_t axis = query.attrs.Int("axis", 0);
    if (axis < 0) axis += rank;
    query.attrs.Set("axis", axis == 0 ? int64_t{0} : axis == 1 ? rank - 1 : axis - 1);
    return true;
  }
  if (query.op == "GlobalAveragePool") {
    query.op = "ReduceMean";
    std::vector<int64_t> axes;
    for (int d = 1; d + 1 < rank; ++d) axes.push_back(d);
    query.attrs = Attrs();
    query.attrs.Set("axes", axes);
    query.attrs.Set("keepdims", true);
    return true;
  }
  return FindOp(query.op)->fusion == FusionClass::kElementwise;
}

std::optional<LyingQuery> LyingQueryOf(const NodeQuery& query) {
  if (!HasOutput(query, 0)) return std::nullopt;
  const int rank = query.outputs[0]->shape.rank();
  if (rank != 4 && rank != 5) return std::nullopt;
  LyingQuery lying{query, {}, {}};
  if (!TurnAttrs(rank, lying.query)) return std::nullopt;
  for (std::optional<TensorType>& type : lying.query.inputs) {
    if (!TurnOperand(rank, type, lying.in_layouts)) return std::nullopt;
  }
  for (std::optional<TensorType>& type : lying.query.outputs) {
    if (!TurnOperand(rank, type, lying.out_layouts)) return std::nullopt;
  }
  const bool any = std::ranges::count(lying.in_layouts, Layout::kNHWC) > 0 ||
                   std::ranges::count(lying.out_layouts, Layout::kNHWC) > 0;
  return any ? std::optional(std::move(lying)) : std::nullopt;
}

const KernelFamily* FamilyFor(const NodeQuery& lying, int threads) {
  for (const KernelFamily& family : RowMajorFamilies()) {
    if (family.match(lying, threads).has_value()) return &family;
  }
  return nullptr;
}

std::optional<KernelVariant> MatchNothing(const NodeQuery&, int) { return std::nullopt; }

std::vector<KernelVariant> OfferChannelsLast(const NodeQuery& query, int threads) {
  const std::optional<LyingQuery> lying = LyingQueryOf(query);
  if (!lying.has_value()) return {};
  const KernelFamily* family = FamilyFor(lying->query, threads);
  if (family == nullptr) return {};
  KernelVariant variant = *family->match(lying->query, threads);
  variant.name = StrCat(kName, ":", variant.name);
  variant.in_layouts = lying->in_layouts;
  variant.out_layouts = lying->out_layouts;
  return {variant};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareChannelsLast(const KernelRequest& request) {
  KernelRequest lying = request;
  lying.query = LyingQueryOf(request.query)->query;  // it matched
  lying.variant = request.variant.substr(kName.size() + 1);
  lying.inputs.assign(request.inputs.size(), {});
  lying.outputs.assign(request.outputs.size(), {});
  return FamilyFor(lying.query, request.threads)->prepare(lying);
}

}  // namespace

KernelFamily ChannelsLastFamily() {
  return {kName, MatchNothing, PrepareChannelsLast, OfferChannelsLast};
}

}  // namespace millrace
