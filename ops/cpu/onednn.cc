// oneDNN has two doors, and each op goes through the better one.
//
// Conv is a primitive. It runs on plain (NCHW) operands where that is as fast: pointwise windows of
// one group, which are a matrix product as they are. Otherwise oneDNN picks the layouts (`any`),
// and the operands are reordered into scratch on each run: source, weights, and the result back.
// Measured with oneDNN 2.6 on a Xeon with AVX-512, one thread, reorders included
// (bench/cpu_kernels_bench.cc): 3x3 and 7x7 windows 1.1 to 2.2 times as fast as plain, depthwise
// ones 3 to 4 times, pointwise ones 0.6 to 1.0 times. Prepacked weights and blocked neighbours will
// save the reorders.
//
// MatMul and Gemm are calls of sgemm: it takes transposes, alpha and beta, has no primitive to
// start (0.3 us less a call), and at batch 1 it is as fast as the matmul primitive or faster (1.5
// times for [128,768] x [768,3072]). A batch with work for the whole team is split among its
// members, each calling sgemm alone; otherwise sgemm splits each product. sgemm packs into memory
// of its own.
//
// A primitive's scratchpad is the plan's (user mode), after the reordered operands. Memory objects
// are made when a kernel is prepared; a run sets their addresses. oneDNN throws; nothing leaves
// this file as an exception.
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
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "dnnl.hpp"
#include "graph/strings.h"
#include "ops/cpu/matmul_spec.h"
#include "ops/cpu/team.h"
#include "ops/window.h"

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

using Dims = dnnl::memory::dims;

// oneDNN counts in int: larger operands, and windows beyond reason, are left to the reference.
constexpr int64_t kMaxElements = int64_t{1} << 31;
constexpr int64_t kMaxWindowNumber = int64_t{1} << 16;

// Fewer multiply-adds than this are not worth waking a team for.
constexpr double kTeamMultiplyAdds = 1 << 19;

int TeamFor(double multiply_adds, int threads) {
  return multiply_adds < kTeamMultiplyAdds ? 1 : threads;
}

const dnnl::engine& CpuEngine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::string VariantName() { return StrCat("onednn:", OneDnnIsa()); }

absl::Status ToStatus(dnnl_status_t status, std::string_view what) {
  if (status == dnnl_success) return absl::OkStatus();
  return DeviceError(StrCat("oneDNN: ", what, " failed with status ", static_cast<int>(status)));
}

int64_t Padded(int64_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

bool AllSized(const std::vector<std::optional<TensorType>>& types) {
  return std::all_of(types.begin(), types.end(), [](const auto& type) {
    if (!type.has_value()) return true;
    const int64_t count = NumElements(type->shape);
    return count > 0 && count < kMaxElements;
  });
}

// --- Conv ---------------------------------------------------------------------------------------
struct ConvSpec {
  Dims src, weights, bias, dst;  // weights with the groups in front where there are any
  Dims strides, dilations, pad_begin, pad_end;
  double multiply_adds = 0;
  bool has_bias = false;
  bool plain = false;  // on the operands as they lie
};

Dims ToDims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

std::optional<ConvSpec> ConvSpecOf(const NodeQuery& query) {
  if (query.op != "Conv" || !AllOf(query, DType::kF32) || !HasOutput(query, 0)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  const Shape &in = query.inputs[0]->shape, &weights = query.inputs[1]->shape;
  const Shape& out = query.outputs[0]->shape;
  const auto window = MakeWindow(query.attrs, in.dims().subspan(2), weights.dims().subspan(2));
  if (!window.ok()) return std::nullopt;

  ConvSpec spec;
  spec.src = ToDims(in);
  spec.dst = ToDims(out);
  spec.weights = ToDims(weights);
  spec.bias = {weights[0]};
  spec.has_bias = HasInput(query, 2);
  const int64_t groups = query.attrs.Int("group", 1);
  spec.multiply_adds = static_cast<double>(NumElements(out)) *
                       static_cast<double>(NumElements(weights)) / static_cast<double>(weights[0]);
  if (groups > 1) {
    spec.weights[0] /= groups;
    spec.weights.insert(spec.weights.begin(), groups);
  }
  spec.plain = groups == 1;
  const Window& w = *window;
  for (int d = kMaxSpatial - w.rank; d < kMaxSpatial; ++d) {
    // oneDNN wants as much padding at the end as the last window needs, not as the node says.
    const int64_t reach = (w.out[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1;
    const int64_t pad_end = std::max<int64_t>(reach - w.in[d] - w.pads_begin[d], 0);
    for (int64_t number : {w.kernel[d], w.strides[d], w.dilations[d], w.pads_begin[d], pad_end}) {
      if (number > kMaxWindowNumber) return std::nullopt;
    }
    spec.strides.push_back(w.strides[d]);
    spec.dilations.push_back(w.dilations[d] - 1);
    spec.pad_begin.push_back(w.pads_begin[d]);
    spec.pad_end.push_back(pad_end);
    spec.plain &= w.kernel[d] == 1 && w.strides[d] == 1 && w.pads_begin[d] == 0 && pad_end == 0;
  }
  return spec;
}

dnnl::memory::desc PlainDesc(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::memory::desc AnyDesc(const Dims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

// The primitive for the calling thread's team.
dnnl::convolution_forward::primitive_desc ConvDesc(const ConvSpec& spec) {
  using Conv = dnnl::convolution_forward;
  const auto desc = spec.plain ? PlainDesc : AnyDesc;
  constexpr auto kProp = dnnl::prop_kind::forward_inference;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const Conv::desc op =
      spec.has_bias
          ? Conv::desc(kProp, kAlgorithm, desc(spec.src), desc(spec.weights), PlainDesc(spec.bias),
                       desc(spec.dst), spec.strides, spec.dilations, spec.pad_begin, spec.pad_end)
          : Conv::desc(kProp, kAlgorithm, desc(spec.src), desc(spec.weights), desc(spec.dst),
                       spec.strides, spec.dilations, spec.pad_begin, spec.pad_end);
  return {op, attr, CpuEngine()};
}

// Where in scratch things lie: reordered source, weights and result (where the primitive wants
// another layout than plain), then the primitive's own scratchpad, then those of the reorders.
struct ConvScratch {
  int64_t src = -1, weights = -1, dst = -1;  // -1: not reordered
  int64_t primitive = 0;
  int64_t size_bytes = 0;

  ConvScratch(const ConvSpec& spec, const dnnl::convolution_forward::primitive_desc& conv) {
    const auto place = [&](const dnnl::memory::desc& wanted, const Dims& dims, int64_t& offset) {
      if (wanted == PlainDesc(dims)) return;
      offset = size_bytes;
      size_bytes += Padded(static_cast<int64_t>(wanted.get_size()));
    };
    place(conv.src_desc(), spec.src, src);
    place(conv.weights_desc(), spec.weights, weights);
    place(conv.dst_desc(), spec.dst, dst);
    primitive = size_bytes;
    size_bytes += Padded(static_cast<int64_t>(conv.scratchpad_desc().get_size()));
  }
};

// A primitive with its arguments, callable without building a map of them each time.
class Call {
 public:
  Call() = default;
  Call(dnnl::primitive primitive, std::initializer_list<std::pair<int, const dnnl::memory*>> args)
      : primitive_(std::move(primitive)) {
    for (const auto& [index, memory] : args) {
      if (memory->get(true) != nullptr) args_[count_++] = {index, memory->get()};
    }
  }
  bool exists() const { return count_ > 0; }
  absl::Status Run(const dnnl::stream& stream) const {
    return ToStatus(dnnl_primitive_execute(primitive_.get(), stream.get(), count_, args_.data()),
                    "running a primitive");
  }

 private:
  dnnl::primitive primitive_;
  std::array<dnnl_exec_arg_t, 6> args_{};
  int count_ = 0;
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const ConvSpec& spec, int threads)
      : threads_(threads), stream_(CpuEngine()), has_bias_(spec.has_bias) {
    const auto conv = ConvDesc(spec);
    const ConvScratch scratch(spec, conv);
    plain_src_ = Unplaced(PlainDesc(spec.src));
    plain_weights_ = Unplaced(PlainDesc(spec.weights));
    plain_dst_ = Unplaced(PlainDesc(spec.dst));
    if (has_bias_) bias_ = Unplaced(PlainDesc(spec.bias));
    const dnnl::memory src = InScratch(conv.src_desc(), scratch.src, plain_src_);
    const dnnl::memory weights = InScratch(conv.weights_desc(), scratch.weights, plain_weights_);
    const dnnl::memory dst = InScratch(conv.dst_desc(), scratch.dst, plain_dst_);
    const dnnl::memory own = InScratch(conv.scratchpad_desc(), scratch.primitive, {});
    if (scratch.src >= 0) AddReorder(plain_src_, src);
    if (scratch.weights >= 0) AddReorder(plain_weights_, weights);
    calls_[call_count_++] = Call(dnnl::convolution_forward(conv), {{DNNL_ARG_SRC, &src},
                                                                   {DNNL_ARG_WEIGHTS, &weights},
                                                                   {DNNL_ARG_BIAS, &bias_},
                                                                   {DNNL_ARG_DST, &dst},
                                                                   {DNNL_ARG_SCRATCHPAD, &own}});
    if (scratch.dst >= 0) AddReorder(dst, plain_dst_);
  }

  absl::Status Run(const KernelArgs& args) override {
    SetTeamSize(threads_);
    MILLRACE_RETURN_IF_ERROR(Place(plain_src_, args.inputs[0]));
    MILLRACE_RETURN_IF_ERROR(Place(plain_weights_, args.inputs[1]));
    if (has_bias_) MILLRACE_RETURN_IF_ERROR(Place(bias_, args.inputs[2]));
    MILLRACE_RETURN_IF_ERROR(Place(plain_dst_, args.outputs[0]));
    if (args.scratch != scratch_) {
      for (const auto& [memory, offset] : in_scratch_) {
        auto* base = static_cast<std::byte*>(args.scratch);
        MILLRACE_RETURN_IF_ERROR(Place(memory, base + offset));
      }
      scratch_ = args.scratch;
    }
    for (int i = 0; i < call_count_; ++i) MILLRACE_RETURN_IF_ERROR(calls_[i].Run(stream_));
    return absl::OkStatus();
  }

 private:
  static dnnl::memory Unplaced(const dnnl::memory::desc& desc) {
    return {desc, CpuEngine(), DNNL_MEMORY_NONE};
  }

  // A memory object at `offset` in scratch, or `plain` when the operand is used where it lies.
  dnnl::memory InScratch(const dnnl::memory::desc& desc, int64_t offset,
                         const dnnl::memory& plain) {
    if (offset < 0) return plain;
    dnnl::memory memory = Unplaced(desc);
    in_scratch_.emplace_back(memory, offset);
    return memory;
  }

  void AddReorder(const dnnl::memory& from, const dnnl::memory& to) {
    calls_[call_count_++] =
        Call(dnnl::reorder(from, to), {{DNNL_ARG_FROM, &from}, {DNNL_ARG_TO, &to}});
  }

  static absl::Status Place(const dnnl::memory& memory, void* data) {
    return ToStatus(dnnl_memory_set_data_handle(memory.get(), data), "placing an operand");
  }

  const int threads_;
  const dnnl::stream stream_;
  const bool has_bias_;
  dnnl::memory plain_src_, plain_weights_, bias_, plain_dst_;
  std::vector<std::pair<dnnl::memory, int64_t>> in_scratch_;  // with byte offsets
  void* scratch_ = nullptr;                                   // where they are placed now
  std::array<Call, 4> calls_;
  int call_count_ = 0;
};

std::optional<KernelVariant> MatchConv(const NodeQuery& query, int threads) {
  const std::optional<ConvSpec> spec = ConvSpecOf(query);
  if (!spec.has_value()) return std::nullopt;
  const ScopedTeamSize team(TeamFor(spec->multiply_adds, threads));
  try {
    KernelVariant variant = DenseVariant(query, VariantName());
    variant.scratch_bytes = ConvScratch(*spec, ConvDesc(*spec)).size_bytes;
    return variant;
  } catch (const dnnl::error&) {  // no implementation for these sizes
    return std::nullopt;
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareConv(const KernelRequest& request) {
  const ConvSpec spec = *ConvSpecOf(request.query);
  const int threads = TeamFor(spec.multiply_adds, request.threads);
  const ScopedTeamSize team(threads);
  try {
    return std::make_unique<ConvKernel>(spec, threads);
  } catch (const dnnl::error& error) {
    return InternalError(StrCat("oneDNN: ", error.what()));
  }
}

// --- MatMul and Gemm ----------------------------------------------------------------------------
class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const MatMulSpec& spec, int threads)
      : spec_(spec),
        threads_(TeamFor(spec.multiply_adds(), threads)),
        batches_(NumElements(spec.batch)) {}

  absl::Status Run(const KernelArgs& args) override {
    SetTeamSize(threads_);
    if (batches_ < threads_ || threads_ == 1) {
      for (int64_t i = 0; i < batches_; ++i) MILLRACE_RETURN_IF_ERROR(Multiply(args, i));
      return absl::OkStatus();
    }
    std::atomic<bool> failed = false;
    const auto steps = static_cast<int64_t>(std::min(spec_.multiply_adds(), 1e18));
    ParallelFor(threads_, batches_, steps, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!Multiply(args, i).ok()) failed = true;
      }
    });
    return failed ? DeviceError("oneDNN: sgemm failed") : absl::OkStatus();
  }

 private:
  absl::Status Multiply(const KernelArgs& args, int64_t i) const {
    const MatMulSpec& s = spec_;
    const auto* a =
        static_cast<const float*>(args.inputs[0]) + s.MatrixOf(s.batch_a, i) * s.m * s.k;
    const auto* b =
        static_cast<const float*>(args.inputs[1]) + s.MatrixOf(s.batch_b, i) * s.k * s.n;
    auto* out = static_cast<float*>(args.outputs[0]) + i * s.m * s.n;
    if (s.has_c) SpreadC(static_cast<const float*>(args.inputs[2]), out);
    return ToStatus(dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k,
                               s.alpha, a, s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n,
                               s.has_c ? s.beta : 0.0f, out, s.n),
                    "sgemm");
  }

  // sgemm adds to what the result holds: C goes there first, unless it lies there.
  void SpreadC(const float* c, float* out) const {
    if (c == out) return;
    for (int64_t row = 0; row < spec_.m; ++row) {
      const float* from = c + row * spec_.c_row_stride;
      float* to = out + row * spec_.n;
      if (spec_.c_column_stride == 0) {
        std::fill(to, to + spec_.n, *from);
      } else {
        std::memcpy(to, from, static_cast<size_t>(spec_.n) * sizeof(float));
      }
    }
  }

  const MatMulSpec spec_;
  const int threads_;
  const int64_t batches_;
};

std::optional<KernelVariant> MatchMatMul(const NodeQuery& query) {
  if (!MatMulSpecOf(query).has_value() || !AllOf(query, DType::kF32)) return std::nullopt;
  if (!AllSized(query.inputs) || !AllSized(query.outputs)) return std::nullopt;
  return DenseVariant(query, VariantName());
}

// --- Family -------------------------------------------------------------------------------------
std::optional<KernelVariant> Match(const NodeQuery& query, int threads) {
  return query.op == "Conv" ? MatchConv(query, threads) : MatchMatMul(query);
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  if (request.query.op == "Conv") return PrepareConv(request);
  return std::make_unique<MatMulKernel>(*MatMulSpecOf(request.query), request.threads);
}

}  // namespace

KernelFamily OneDnnFamily() { return {"onednn", Match, Prepare}; }

}  // namespace millrace

#endif  // MILLRACE_HAVE_ONEDNN
