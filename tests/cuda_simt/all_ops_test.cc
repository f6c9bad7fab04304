// Every kernel of ours that the cuda backend offers for any op case (tests/ops/op_cases.h) in every
// element type that the op takes, run on the host by the SIMT shim in both orders of threads,
// against the reference.
#include <algorithm>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cuda/cuda_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/cuda_simt/simt_runner.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

// Of |a - b| / max(1, |b|): a few roundings of the type, or of f32 sums.
double SimtToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 4e-3;
    case DType::kBF16:
      return 3e-2;
    case DType::kF32:
      return 2e-5;
    case DType::kF64:
      return 1e-12;
    default:
      return 0;
  }
}

struct SimtCase {
  std::string name, variant;
  NodeQuery query;
  std::vector<Tensor> inputs;
  CudaWork work;
};

// The case with its f64 operands in another type; nullopt when the op does not take it.
std::optional<SimtCase> SimtCaseOf(const optest::OpCase& c, DType dtype) {
  SimtCase result;
  result.name = StrCat(c.name, " as ", DTypeName(dtype));
  result.query = {c.op, c.attrs, {}, {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    const bool data = t.has_data() && t.dtype() == DType::kF64;
    result.inputs.push_back(data ? optest::Converted(t, dtype) : t);
    result.query.inputs.push_back(t.has_data() ? std::optional(result.inputs.back().type())
                                               : std::nullopt);
    if (!t.has_data() || t.dtype() != DType::kI64 || t.shape().rank() > 1) continue;
    std::vector<int64_t>& known = result.query.known[static_cast<int>(i)];
    for (int64_t e = 0; e < t.num_elements(); ++e) known.push_back(t.AsInt64(e));
  }
  result.query.outputs.assign(static_cast<size_t>(c.num_outputs), TensorType());
  const auto types = InferOutputs(result.query, result.inputs);
  if (!types.ok()) return std::nullopt;
  for (int k = 0; k < c.num_outputs; ++k) result.query.outputs[k] = (*types)[k];
  return result;
}

bool IsLibraryWork(const CudaWork& work) {
  return std::ranges::any_of(work.launches, [](const auto& l) { return l.is_library_call(); });
}

// The cases of some ops, with all that is offered for each.
std::vector<SimtCase> CasesOf(size_t part, size_t parts) {
  std::vector<SimtCase> cases;
  size_t at = 0;
  for (const optest::OpCase& each : optest::OpCases()) {
    if (at++ % parts != part || FindOp(each.op)->traits.host_call) continue;
    for (int d = 0; d < kNumDTypes; ++d) {
      std::optional<SimtCase> c = SimtCaseOf(each, static_cast<DType>(d));
      if (!c.has_value()) continue;
      for (const KernelVariant& variant : CudaTarget().Variants(c->query)) {
        std::optional<CudaWork> work = CudaWorkFor(c->query, variant.name);
        if (!work.has_value() || IsLibraryWork(*work)) continue;
        cases.push_back(*c);
        cases.back().variant = variant.name;
        cases.back().work = *std::move(work);
      }
    }
  }
  return cases;
}

class SimtAllOps : public ::testing::TestWithParam<size_t> {};
constexpr size_t kParts = 4;

TEST_P(SimtAllOps, EveryKernelOfEveryCaseInEveryType) {
  const std::vector<SimtCase> cases = CasesOf(GetParam(), kParts);
  std::vector<CudaLaunch> launches;
  for (const SimtCase& c : cases) {
    launches.insert(launches.end(), c.work.launches.begin(), c.work.launches.end());
  }
  auto module = SimtModule::Build(launches);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_GT(cases.size(), 100u);
  for (const SimtCase& c : cases) {
    SCOPED_TRACE(StrCat(c.name, ", ", c.variant));
    const auto expected = ReferenceOf(c.query, c.inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const SimtOrder order : {SimtOrder::kForward, SimtOrder::kBackward}) {
      const auto actual = RunSimt(**module, c.query, c.work, c.inputs, {.order = order});
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t k = 0; k < expected->size(); ++k) {
        if (!(*expected)[k].has_data()) continue;
        EXPECT_LE(optest::MaxError((*actual)[k], (*expected)[k]),
                  SimtToleranceOf((*expected)[k].dtype()))
            << "output " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, SimtAllOps, ::testing::Range(size_t{0}, kParts));

}  // namespace
}  // namespace millrace
