// Window functions, and the weights that gather the bins of a spectrum on the mel scale. All are
// made from a few numbers; those that decide the size of the result must be known while planning.
#include <cmath>
#include <numbers>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

DType OutputType(const Attrs& attrs) { return *ParseDType(attrs.String("output_datatype", "f32")); }

// --- Windows -----------------------------------------------------------------------------------

absl::Status InferWindow(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t size, ConstantInt(c, 0, "size", 0));
  c.set_output(0, {OutputType(c.attrs()), {size}});
  return absl::OkStatus();
}

// a0 - a1 cos(x) + a2 cos(2x), x going once around in size places, or in size - 1 when the window
// is symmetric.
absl::Status CosineWindow(const ReferenceContext& c, double a0, double a1, double a2) {
  Tensor& window = c.outputs[0];
  const int64_t size = window.num_elements();
  const int64_t around = c.attrs.Bool("periodic", true) ? size : size - 1;
  for (int64_t i = 0; i < size; ++i) {
    const double x =
        around > 0 ? 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(around)
                   : std::numbers::pi;  // one place alone is the middle
    window.Set(i, a0 - a1 * std::cos(x) + a2 * std::cos(2 * x));
  }
  return absl::OkStatus();
}

OpDef WindowOp(std::string name, std::string doc, ReferenceFn reference) {
  std::vector<std::string> types;
  for (DType dtype : NumericTypes()) types.emplace_back(DTypeName(dtype));
  return {
      .name = std::move(name),
      .doc = std::move(doc),
      .tier = 2,
      .inputs = {{.name = "size", .dtypes = IndexTypes(), .doc = "one number"}},
      .outputs = {{.name = "output"}},
      .attrs = {{.name = "output_datatype",
                 .kind = AttrKind::kString,
                 .default_value = "f32",
                 .choices = std::move(types)},
                {.name = "periodic",
                 .kind = AttrKind::kBool,
                 .default_value = true,
                 .doc = "the first place would come again after the last; else it is the last"}},
      .traits = {.host_inputs = {0}},
      .infer = InferWindow,
      .reference = reference};
}

// --- MelWeightMatrix ---------------------------------------------------------------------------

absl::Status InferMel(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t bins, ConstantInt(c, 0, "num_mel_bins", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t length, ConstantInt(c, 1, "dft_length", 0));
  for (int i = 2; i < 5; ++i) {
    if (CheckedNumElements(c.input(i).shape) != 1) {
      return BadInputError("sample rate and edges must have exactly one element each");
    }
  }
  c.set_output(0, {OutputType(c.attrs()), {length / 2 + 1, bins}});
  return absl::OkStatus();
}

double ToMel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double ToHertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Each mel bin is a triangle over the spectrum's bins, its corners evenly spaced on the mel scale.
absl::Status MelReference(const ReferenceContext& c) {
  Tensor& weights = c.outputs[0];
  const int64_t rows = weights.shape()[0], columns = weights.shape()[1];
  const double length = c.inputs[1].AsDouble(0), rate = c.inputs[2].AsDouble(0);
  const double low = ToMel(c.inputs[3].AsDouble(0)), high = ToMel(c.inputs[4].AsDouble(0));
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < columns + 2; ++i) {
    const double mel =
        low + static_cast<double>(i) * (high - low) / static_cast<double>(columns + 2);
    const double bin = std::floor((length + 1) * ToHertz(mel) / rate);
    if (!(bin >= 0 && bin < static_cast<double>(rows))) {
      return BadInputError(
          StrCat("mel bin ", i, " begins in bin ", bin, " of a spectrum of ", rows));
    }
    corners.push_back(static_cast<int64_t>(bin));
  }
  for (int64_t i = 0; i < weights.num_elements(); ++i) weights.Set(i, 0);
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t left = corners[i], middle = corners[i + 1], right = corners[i + 2];
    const auto set = [&](int64_t row, int64_t part, int64_t whole) {
      weights.Set(row * columns + i,
                  whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole));
    };
    for (int64_t row = left; row <= middle; ++row) set(row, row - left, middle - left);
    for (int64_t row = middle; row < right; ++row) set(row, right - row, right - middle);
  }
  return absl::OkStatus();
}

}  // namespace

OpDef HannWindowOp() {
  return WindowOp("HannWindow", "The Hann window: 1/2 - 1/2 cos x",
                  [](const ReferenceContext& c) { return CosineWindow(c, 0.5, 0.5, 0); });
}

OpDef HammingWindowOp() {
  return WindowOp(
      "HammingWindow", "The Hamming window: 25/46 - 21/46 cos x",
      [](const ReferenceContext& c) { return CosineWindow(c, 25.0 / 46, 21.0 / 46, 0); });
}

OpDef BlackmanWindowOp() {
  return WindowOp("BlackmanWindow", "The Blackman window: 0.42 - 0.5 cos x + 0.08 cos 2x",
                  [](const ReferenceContext& c) { return CosineWindow(c, 0.42, 0.5, 0.08); });
}

OpDef MelWeightMatrixOp() {
  const auto number = [](std::string name, std::vector<DType> dtypes) {
    return OperandSpec{.name = std::move(name), .dtypes = std::move(dtypes), .doc = "one number"};
  };
  OpDef op = WindowOp("MelWeightMatrix",
                      "What each bin of a spectrum counts in each of some bins of the mel scale",
                      MelReference);
  op.inputs = {number("num_mel_bins", IndexTypes()), number("dft_length", IndexTypes()),
               number("sample_rate", IndexTypes()), number("lower_edge_hertz", FloatTypes()),
               number("upper_edge_hertz", FloatTypes())};
  op.attrs.pop_back();  // periodic
  op.traits.host_inputs = {0, 1, 2, 3, 4};
  op.infer = InferMel;
  return op;
}

}  // namespace millrace
