// Kernel sources to machine code, without a GPU: NVRTC compiles them for what we support, without a
// warning, and the assembler spills no register.
#include <filesystem>
#include <set>

#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/cuda/cuda_target.h"
#include "ops/cuda/nvrtc_compiler.h"
#include "ops/infer.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

constexpr int kArchitectures[] = {80, 90};

std::optional<TensorType> T(DType dtype, Shape shape) { return TensorType{dtype, shape}; }

// All kernels that the target offers for the query, as one source.
class SourceCollection {
 public:
  void Add(const NodeQuery& query) {
    for (const KernelVariant& variant : CudaTarget().Variants(query)) {
      const std::optional<CudaWork> work = CudaWorkFor(query, variant.name);
      if (!work.has_value()) continue;
      for (const CudaLaunch& launch : work->launches) {
        if (launch.is_library_call()) continue;
        if (functions_.insert(launch.function).second) text_ += launch.source;
      }
    }
  }
  const std::string& text() const { return text_; }
  size_t size() const { return functions_.size(); }

 private:
  std::set<std::string> functions_;
  std::string text_;
};

void ExpectCompilesWithoutSpills(const SourceCollection& sources) {
  for (const int sm : kArchitectures) {
    SCOPED_TRACE(StrCat("sm_", sm));
    const auto inspected = InspectSource(sources.text(), sm);
    if (!inspected.ok() && inspected.status().ToString().find("libnvrtc") != std::string::npos) {
      GTEST_SKIP() << inspected.status();
    }
    ASSERT_TRUE(inspected.ok()) << inspected.status();
    EXPECT_EQ(inspected->warnings, "");
    EXPECT_EQ(inspected->functions.size(), sources.size());
    for (const KernelResources& function : inspected->functions) {
      EXPECT_GT(function.registers, 0) << function.function;
      EXPECT_EQ(function.spill_store_bytes, 0) << function.function;
      EXPECT_EQ(function.spill_load_bytes, 0) << function.function;
    }
  }
}

// As they come in models.
TEST(Nvrtc, KernelsOfModelsDoNotSpill) {
  SourceCollection sources;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const auto x = T(dtype, {8, 512, 768}), row = T(dtype, {768});
    sources.Add({"Add", {}, {x, row}, {x}});
    sources.Add({"Gelu", {}, {x}, {x}});
    sources.Add({"Softmax", {}, {x}, {x}});
    sources.Add({"LayerNormalization", {}, {x, row, row}, {x}});
    sources.Add({"Softmax", {}, {T(dtype, {64, 50257})}, {T(dtype, {64, 50257})}});
    const auto image = T(dtype, {32, 256, 56, 56}), channels = T(dtype, {256});
    sources.Add({"BatchNormalization",
                 optest::MakeAttrs({{"training_mode", true}}),
                 {image, channels, channels, channels, channels},
                 {image, channels, channels}});
    sources.Add(
        {"grad.BatchNormalization", {}, {image, image, channels}, {image, channels, channels}});
    sources.Add({"Transpose",
                 optest::MakeAttrs({{"perm", std::vector<int64_t>{0, 2, 1}}}),
                 {x},
                 {T(dtype, {8, 768, 512})}});
    sources.Add(
        {"MatMul", {}, {T(dtype, {512, 768}), T(dtype, {768, 768})}, {T(dtype, {512, 768})}});
    const auto weights = T(dtype, {30522, 768});
    const auto tokens = T(DType::kI64, {8, 512});
    sources.Add({"Gather", {}, {weights, tokens}, {x}});
    sources.Add({"optim.AdamW",
                 {},
                 {weights, weights, T(DType::kF32, {1}), T(DType::kI64, {1}), weights, weights},
                 {weights, weights, weights}});
    const auto scores = T(dtype, {4096, 1000}), labels = T(DType::kI64, {4096});
    sources.Add({"SoftmaxCrossEntropyLoss", {}, {scores, labels}, {T(dtype, {})}});
    sources.Add({"Dropout", {}, {x, T(dtype, {1}), T(DType::kBool, {1})}, {x}});
    const auto heads = T(dtype, {8, 12, 512, 64});
    sources.Add({"fused.Attention", {}, {heads, heads, heads}, {heads}});
  }
  EXPECT_GT(sources.size(), 40u);
  ExpectCompilesWithoutSpills(sources);
}

// One image after another from the cache; a damaged file is compiled anew.
TEST(Nvrtc, ImagesAreKeptOnDisk) {
  class Counting final : public CudaCompiler {
   public:
    explicit Counting(int& count) : count_(count) {}
    absl::StatusOr<std::string> Compile(const CudaLaunch& launch, int sm) override {
      return StrCat(launch.function, "@", sm, "#", ++count_);
    }
    std::string name() const override { return "counting"; }

   private:
    int& count_;
  };
  const TemporaryFolder folder;
  int count = 0;
  const auto cached = CacheOnDisk(std::make_unique<Counting>(count), folder.path() + "/kernels");
  const CudaLaunch launch = NamedLaunch("f", "void @name@() {}");
  const auto first = cached->Compile(launch, 80);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*cached->Compile(launch, 80), *first);
  EXPECT_EQ(count, 1);
  EXPECT_NE(*cached->Compile(launch, 90), *first);
  EXPECT_EQ(count, 2);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/kernels")) {
    std::filesystem::resize_file(entry.path(), 70);
  }
  ASSERT_TRUE(cached->Compile(launch, 80).ok());
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace millrace
