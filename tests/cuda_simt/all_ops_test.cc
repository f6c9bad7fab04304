// Every kernel of ours that the cuda backend offers for any op case (tests/ops/op_cases.h) in every
// element type that the op takes, run on the host by the SIMT shim in both orders of threads,
// against the reference.
#include <algorithm>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "tests/cuda_simt/simt_cases.h"
#include "tests/cuda_simt/simt_runner.h"

namespace millrace {
namespace {

// One kernel for one case.
struct KernelCase {
  std::string name;
  SimtCase c;
  CudaWork work;
};

bool IsLibraryWork(const CudaWork& work) {
  return std::ranges::any_of(work.launches, [](const auto& l) { return l.is_library_call(); });
}

std::vector<KernelCase> KernelCasesOf(size_t part, size_t parts) {
  std::vector<KernelCase> cases;
  for (SimtCase& c : SimtCases(part, parts)) {
    for (const KernelVariant& variant : CudaTarget().Variants(c.query)) {
      std::optional<CudaWork> work = CudaWorkFor(c.query, variant.name);
      if (!work.has_value() || IsLibraryWork(*work)) continue;
      cases.push_back({StrCat(c.name, ", ", variant.name), c, *std::move(work)});
    }
  }
  return cases;
}

class SimtAllOps : public ::testing::TestWithParam<size_t> {};
constexpr size_t kParts = 8;

TEST_P(SimtAllOps, EveryKernelOfEveryCaseInEveryType) {
  const std::vector<KernelCase> cases = KernelCasesOf(GetParam(), kParts);
  std::vector<CudaLaunch> launches;
  for (const KernelCase& each : cases) {
    launches.insert(launches.end(), each.work.launches.begin(), each.work.launches.end());
  }
  auto module = SimtModule::Build(launches);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_GT(cases.size(), 100u);
  for (const KernelCase& each : cases) {
    SCOPED_TRACE(each.name);
    const auto expected = ReferenceOf(each.c.query, each.c.inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const SimtOrder order : {SimtOrder::kForward, SimtOrder::kBackward}) {
      const auto actual =
          RunSimt(**module, each.c.query, each.work, each.c.inputs, {.order = order});
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
