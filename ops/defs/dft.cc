// DFT along one axis of [batch, ..., 1 or 2], and STFT, the DFT of overlapping frames of [batch,
// length, 1 or 2]. The last dim holds real numbers or real and imaginary parts; results are
// complex.
#include <cmath>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/fourier.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

using Complex = std::complex<double>;

absl::Status CheckSignal(const Shape& shape) {
  const int64_t parts = shape.rank() < 2 ? 0 : shape[shape.rank() - 1];
  if (parts == 1 || parts == 2) return absl::OkStatus();
  return BadInputError(
      StrCat("the signal must end in a dim of 1 (real) or 2 (complex), not ", ToString(shape)));
}

// Of a spectrum of n places, those that a real signal does not make twice.
int64_t BinsOf(int64_t n, bool onesided) { return onesided ? n / 2 + 1 : n; }

template <typename T>
Complex ElementAt(const T* x, int64_t parts) {
  return {static_cast<double>(x[0]), parts == 2 ? static_cast<double>(x[1]) : 0};
}

template <typename T>
void Store(const Complex& value, T* to) {
  to[0] = Narrow<T>(value.real());
  to[1] = Narrow<T>(value.imag());
}

// --- DFT ---------------------------------------------------------------------------------------

absl::Status InferDft(InferContext& c) {
  Shape shape = c.input(0).shape;
  MILLRACE_RETURN_IF_ERROR(CheckSignal(shape));
  const int last = shape.rank() - 1;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis", 1), shape.rank()));
  if (axis == last) return BadInputError("'axis' is the dim of real and imaginary parts");
  const bool onesided = c.attrs().Bool("onesided", false);
  if (onesided && (c.attrs().Bool("inverse", false) || shape[last] != 1)) {
    return BadInputError("half a spectrum is made of a real signal, and not inversely");
  }
  int64_t length = shape[axis];
  if (c.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(length, ConstantInt(c, 1, "dft_length", 1));
  }
  shape[axis] = length == 0 ? 0 : BinsOf(length, onesided);
  shape[last] = 2;
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status DftReference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  Tensor& y = c.outputs[0];
  if (y.num_elements() == 0) return absl::OkStatus();
  const int rank = x.shape().rank();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", 1), rank));
  const bool inverse = c.attrs.Bool("inverse", false);
  const int64_t parts = x.shape()[rank - 1];
  const AxisView in = ViewAround(x.shape(), axis), out = ViewAround(y.shape(), axis);
  const bool has_length = c.inputs.size() > 1 && c.inputs[1].has_data();
  const int64_t length = has_length ? c.inputs[1].AsInt64(0) : x.shape()[axis];
  return VisitFloats(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for (int64_t o = 0; o < out.outer; ++o) {
      for (int64_t i = 0; i < out.inner / 2; ++i) {
        std::vector<Complex> signal(length);  // cut, or filled up with zeros
        for (int64_t n = 0; n < std::min(length, in.size); ++n) {
          signal[n] = ElementAt(from + (o * in.size + n) * in.inner + i * parts, parts);
        }
        const std::vector<Complex> spectrum = FourierTransform(std::move(signal), inverse);
        for (int64_t k = 0; k < out.size; ++k) {
          Store(spectrum[k], to + (o * out.size + k) * out.inner + i * 2);
        }
      }
    }
    return absl::OkStatus();
  });
}

// Dims but the transform's and the parts'.
std::vector<ShardingRule> DftRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 1), shape.rank());
  for (int d = 0; axis.ok() && d < shape.rank() - 1; ++d) {
    if (d == *axis || !Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = rule.outputs[0] = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

// What a fast transform takes: 5 n log2 n.
double TransformFlops(double count, double length) {
  return length > 1 ? 5 * count * length * std::log2(length) : 0;
}

Work DftWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& y = query.outputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 1), y.rank());
  if (!axis.ok() || NumElements(y) == 0) return work;
  const double length = static_cast<double>(y[*axis]);
  work.flops = TransformFlops(static_cast<double>(NumElements(y)) / 2 / length, length);
  return work;
}

// --- STFT --------------------------------------------------------------------------------------

absl::Status InferStft(InferContext& c) {
  const Shape& signal = c.input(0).shape;
  MILLRACE_RETURN_IF_ERROR(CheckSignal(signal));
  if (signal.rank() != 3)
    return BadInputError(
        StrCat("the signal must be [batch,length,1 or 2], ", "not ", ToString(signal)));
  const bool onesided = c.attrs().Bool("onesided", true);
  if (onesided && signal[2] != 1) {
    return BadInputError("half a spectrum is made of a real signal; pass onesided = 0");
  }
  MILLRACE_ASSIGN_OR_RETURN(const int64_t step, ConstantInt(c, 1, "frame_step", 1));
  int64_t length = signal[1];
  if (c.has_input(2)) {
    if (c.input(2).shape.rank() != 1) return BadInputError("the window must have rank 1");
    length = c.input(2).shape[0];
  }
  if (c.has_input(3)) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t frame, ConstantInt(c, 3, "frame_length", 1));
    if (c.has_input(2) && frame != length) {
      return BadInputError(StrCat("frames have ", frame, " places, the window has ", length));
    }
    length = frame;
  }
  if (length < 1 || length > signal[1]) {
    return BadInputError(
        StrCat("a frame of ", length, " places does not fit in a signal of ", signal[1]));
  }
  c.set_output(0, {c.input(0).dtype,
                   {signal[0], 1 + (signal[1] - length) / step, BinsOf(length, onesided), 2}});
  return absl::OkStatus();
}

int64_t FrameLength(const ReferenceContext& c) {
  if (c.inputs.size() > 2 && c.inputs[2].has_data()) return c.inputs[2].num_elements();
  if (c.inputs.size() > 3 && c.inputs[3].has_data()) return c.inputs[3].AsInt64(0);
  return c.inputs[0].shape()[1];
}

absl::Status StftReference(const ReferenceContext& c) {
  const Shape &in = c.inputs[0].shape(), &out = c.outputs[0].shape();
  const int64_t step = c.inputs[1].AsInt64(0), length = FrameLength(c);
  const bool has_window = c.inputs.size() > 2 && c.inputs[2].has_data();
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t b = 0; b < out[0]; ++b) {
      for (int64_t f = 0; f < out[1]; ++f) {
        const T* from = c.inputs[0].data<T>().data() + (b * in[1] + f * step) * in[2];
        std::vector<Complex> frame(length);
        for (int64_t n = 0; n < length; ++n) {
          frame[n] = ElementAt(from + n * in[2], in[2]);
          if (has_window) frame[n] *= c.inputs[2].AsDouble(n);
        }
        const std::vector<Complex> spectrum = FourierTransform(std::move(frame), false);
        for (int64_t k = 0; k < out[2]; ++k, to += 2) Store(spectrum[k], to);
      }
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> StftRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  if (Divisible(query.inputs[0]->shape, 0)) {
    ShardingRule rule = ReplicateAll(query, "split batch");
    rule.inputs[0] = rule.outputs[0] = ShardDim(0);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work StftWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& y = query.outputs[0]->shape;
  const double length = static_cast<double>(y[2]) * (query.attrs.Bool("onesided", true) ? 2 : 1);
  work.flops = TransformFlops(static_cast<double>(y[0]) * static_cast<double>(y[1]), length);
  return work;
}

AttrSpec Onesided(bool otherwise) {
  return {.name = "onesided",
          .kind = AttrKind::kBool,
          .default_value = otherwise,
          .doc = "only the half of the spectrum that a real signal does not repeat"};
}

OperandSpec Length(std::string name, bool optional, std::string doc) {
  return {
      .name = std::move(name), .dtypes = IndexTypes(), .optional = optional, .doc = std::move(doc)};
}

}  // namespace

OpDef DftOp() {
  return {
      .name = "DFT",
      .doc = "The discrete Fourier transform along an axis, or its inverse",
      .tier = 2,
      .inputs = {{.name = "input",
                  .dtypes = FloatTypes(),
                  .same_as = "T",
                  .doc = "[...,1] real or [...,2] complex"},
                 Length("dft_length", true, "cut or filled up with zeros to this; absent: kept")},
      .outputs = {{.name = "output", .same_as = "T", .doc = "[...,2]"}},
      .attrs = {{.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{1}},
                {.name = "inverse", .kind = AttrKind::kBool, .default_value = false},
                Onesided(false)},
      .traits = {.host_inputs = {1}},
      .infer = InferDft,
      .reference = DftReference,
      .sharding = DftRules,
      .work = DftWork};
}

OpDef StftOp() {
  return {.name = "STFT",
          .doc = "The Fourier transforms of overlapping frames of a signal",
          .tier = 2,
          .inputs = {{.name = "signal",
                      .dtypes = FloatTypes(),
                      .same_as = "T",
                      .doc = "[batch,length,1] real or [batch,length,2] complex"},
                     Length("frame_step", false, "from one frame to the next"),
                     {.name = "window",
                      .dtypes = FloatTypes(),
                      .optional = true,
                      .same_as = "T",
                      .doc = "that each frame is multiplied with"},
                     Length("frame_length", true, "absent: the window's, or the signal's")},
          .outputs = {{.name = "output", .same_as = "T", .doc = "[batch,frames,bins,2]"}},
          .attrs = {Onesided(true)},
          .traits = {.host_inputs = {1, 3}},
          .infer = InferStft,
          .reference = StftReference,
          .sharding = StftRules,
          .work = StftWork};
}

}  // namespace millrace
