// Every kernel that the cpu backend offers for any op case (tests/ops/op_cases.h: attributes,
// ranks, broadcasting, sizes of 0 and 1), in every element type that the op takes, against the
// reference. Coarse, so that no op is left out; cpu_conformance_test.cc has the sharp tolerances
// and large sizes.
#include <algorithm>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "tests/ops/cpu_kernel_runner.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

// Of |a - b| / max(1, |b|): a few roundings of the type, or of f32 sums.
double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 4e-3;
    case DType::kBF16:
      return 3e-2;
    case DType::kF32:
      return 1e-5;
    case DType::kF64:
      return 1e-12;
    default:
      return 0;
  }
}

// The case with its f64 operands in another type; nullopt when the op does not take it.
std::optional<KernelCase> CaseOf(const optest::OpCase& c, DType dtype) {
  std::vector<Tensor> inputs;
  NodeQuery query{c.op, c.attrs, {}, {}};
  for (const Tensor& t : c.inputs) {
    const bool data = t.has_data() && t.dtype() == DType::kF64;
    inputs.push_back(data ? optest::Converted(t, dtype) : t);
    query.inputs.push_back(t.has_data() ? std::optional(inputs.back().type()) : std::nullopt);
  }
  query.outputs.assign(c.num_outputs, TensorType());
  if (!InferOutputs(query, inputs).ok()) return std::nullopt;
  return MakeCase(c.op, c.attrs, inputs, c.num_outputs);
}

// How many kernels were compared.
int CheckAllVariants(KernelLibrary& library, const KernelCase& c) {
  const std::vector<KernelVariant> variants = CpuTarget().Variants(c.query);
  EXPECT_FALSE(variants.empty());
  if (variants.size() < 2) return 0;
  const auto expected = RunVariant(library, c, variants.back());
  EXPECT_TRUE(expected.ok()) << expected.status();
  for (size_t v = 0; v + 1 < variants.size(); ++v) {
    // What is packed means something to one reader alone (fused_product_test.cc).
    if (std::ranges::count(variants[v].out_layouts, Layout::kPacked) > 0) continue;
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(StrCat(variants[v].name, ", ", threads, " threads"));
      const auto actual = RunVariant(library, c, variants[v], {.threads = threads});
      EXPECT_TRUE(actual.ok()) << actual.status();
      for (size_t i = 0; actual.ok() && i < expected->size(); ++i) {
        EXPECT_LE(optest::MaxError((*actual)[i], (*expected)[i]),
                  ToleranceOf((*expected)[i].dtype()))
            << "output " << i;
      }
    }
  }
  return static_cast<int>(variants.size()) - 1;
}

TEST(CpuAllOps, EveryKernelOfEveryCaseInEveryType) {
  const std::unique_ptr<KernelLibrary> library = CreateCpuKernelLibrary();
  int compared = 0;
  for (const optest::OpCase& each : optest::OpCases()) {
    if (FindOp(each.op)->traits.host_call) continue;  // sizes are the data's
    for (int d = 0; d < kNumDTypes; ++d) {
      const std::optional<KernelCase> c = CaseOf(each, static_cast<DType>(d));
      if (!c.has_value()) continue;
      SCOPED_TRACE(StrCat(each.name, " as ", DTypeName(static_cast<DType>(d))));
      compared += CheckAllVariants(*library, *c);
    }
  }
  EXPECT_GT(compared, 1000) << "kernels compared";
}

}  // namespace
}  // namespace millrace
