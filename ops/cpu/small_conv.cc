// f32 Conv of few multiply-adds, where oneDNN's reorders and primitives cost more than the work:
// for each image and group, the taps of all windows are laid out as the columns of a matrix in
// scratch (im2col), and the small product does the rest, bias included. A pointwise window needs no
// layout.
#include <algorithm>
#include <cstring>

#include "ops/cpu/kernel_families.h"
#include "ops/cpu/small_product.h"
#include "ops/window.h"

namespace millrace {
namespace {

// Beyond this many multiply-adds for an image oneDNN wins (bench/cpu_kernels_bench.cc, Conv);
// beyond this many in all, a team would.
constexpr double kMaxMultiplyAddsOfImage = 1 << 16, kMaxMultiplyAdds = 1 << 22;

struct ConvPlan {
  Window window;
  int64_t images = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  // of a group
  bool has_bias = false;
  bool pointwise = false;  // the operand is the matrix

  int64_t taps() const { return Volume(window.kernel); }
  int64_t inputs() const { return Volume(window.in); }    // of a channel
  int64_t outputs() const { return Volume(window.out); }  // likewise
};

std::optional<ConvPlan> MakePlan(const NodeQuery& query) {
  if (query.op != "Conv" || !AllOf(query, DType::kF32) || !HasOutput(query, 0)) return std::nullopt;
  const Shape &in = query.inputs[0]->shape, &weights = query.inputs[1]->shape;
  const Shape& out = query.outputs[0]->shape;
  const double multiply_adds = static_cast<double>(NumElements(out)) *
                               static_cast<double>(NumElements(weights)) /
                               static_cast<double>(weights[0]);
  if (multiply_adds > kMaxMultiplyAdds || NumElements(in) == 0 ||
      multiply_adds > kMaxMultiplyAddsOfImage * static_cast<double>(in[0])) {
    return std::nullopt;
  }
  const auto window = MakeWindow(query.attrs, in.dims().subspan(2), weights.dims().subspan(2));
  if (!window.ok()) return std::nullopt;
  ConvPlan plan{.window = *window};
  plan.images = in[0];
  plan.groups = query.attrs.Int("group", 1);
  plan.in_channels = in[1] / plan.groups;
  plan.out_channels = out[1] / plan.groups;
  plan.has_bias = HasInput(query, 2);
  const Window& w = plan.window;
  plan.pointwise = plan.taps() == 1 && w.in == w.out && w.pads_begin == Spatial{0, 0, 0};
  return plan;
}

// The part [first, last) of a row of the result where tap k of dim d falls inside the operand.
struct Inside {
  int64_t first, last;
};
Inside InsideOf(const Window& w, int d, int64_t k) {
  const int64_t before = w.pads_begin[d] - k * w.dilations[d], stride = w.strides[d];
  const int64_t first = before > 0 ? (before + stride - 1) / stride : 0;
  const int64_t end = w.in[d] + before;  // in operand steps from the first window's start
  const int64_t last = end > 0 ? (end + stride - 1) / stride : 0;
  return {std::min(first, w.out[d]), std::clamp(last, std::min(first, w.out[d]), w.out[d])};
}

// One row of the matrix: tap (k0, k1, k2) of every window over one channel.
float* LayOutTap(const Window& w, const float* in, int64_t k0, int64_t k1, int64_t k2, float* to) {
  const Inside inside = InsideOf(w, 2, k2);
  const int64_t stride = w.strides[2];
  const int64_t shift = k2 * w.dilations[2] - w.pads_begin[2];
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
    const int64_t i0 = o0 * w.strides[0] + k0 * w.dilations[0] - w.pads_begin[0];
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1, to += w.out[2]) {
      const int64_t i1 = o1 * w.strides[1] + k1 * w.dilations[1] - w.pads_begin[1];
      if (i0 < 0 || i0 >= w.in[0] || i1 < 0 || i1 >= w.in[1]) {
        std::fill(to, to + w.out[2], 0.0f);
        continue;
      }
      const float* row = in + (i0 * w.in[1] + i1) * w.in[2];
      for (int64_t o = 0; o < inside.first; ++o) to[o] = 0;
      for (int64_t o = inside.first; o < inside.last; ++o) to[o] = row[o * stride + shift];
      for (int64_t o = inside.last; o < w.out[2]; ++o) to[o] = 0;
    }
  }
  return to;
}

void LayOut(const ConvPlan& plan, const float* in, float* to) {
  const Window& w = plan.window;
  for (int64_t c = 0; c < plan.in_channels; ++c, in += plan.inputs()) {
    for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2) to = LayOutTap(w, in, k0, k1, k2, to);
      }
    }
  }
}

class SmallConvKernel final : public Kernel {
 public:
  explicit SmallConvKernel(const ConvPlan& plan) : function_(FindSmallProduct()), plan_(plan) {
    product_.m = plan.out_channels;
    product_.k = plan.in_channels * plan.taps();
    product_.n = plan.outputs();
    product_.a_row_stride = product_.k;
    product_.a_k_stride = 1;
    product_.c_row_stride = 1;
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    const auto* weights = static_cast<const float*>(args.inputs[1]);
    const auto* bias = plan_.has_bias ? static_cast<const float*>(args.inputs[2]) : nullptr;
    auto* matrix = static_cast<float*>(args.scratch);
    SmallProduct p = product_;
    p.out = static_cast<float*>(args.outputs[0]);
    for (int64_t image = 0; image < plan_.images; ++image) {
      for (int64_t group = 0; group < plan_.groups; ++group) {
        if (!plan_.pointwise) LayOut(plan_, in, matrix);
        p.a = weights + group * p.m * p.k;
        p.b = plan_.pointwise ? in : matrix;
        p.c = bias == nullptr ? nullptr : bias + group * p.m;
        function_(p);
        in += plan_.in_channels * plan_.inputs();
        p.out += p.m * p.n;
      }
    }
    return absl::OkStatus();
  }

 private:
  const SmallProductFn function_;
  const ConvPlan plan_;
  SmallProduct product_;  // all but the addresses
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  const std::optional<ConvPlan> plan = MakePlan(query);
  if (!plan.has_value()) return std::nullopt;
  KernelVariant variant = DenseVariant(query, "simd");
  if (!plan->pointwise) {
    variant.scratch_bytes =
        plan->in_channels * plan->taps() * plan->outputs() * static_cast<int64_t>(sizeof(float));
  }
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<SmallConvKernel>(*MakePlan(request.query));
}

}  // namespace

KernelFamily SmallConvFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
