// `millrace ops` and `millrace devices`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_def.h"
#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Ops, ListsEveryOperator) {
  const CommandResult result = RunMillrace({"ops"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const OpDef& op : AllOps()) EXPECT_THAT(result.out, HasSubstr("\n" + op.name + " "));
}

TEST(Ops, DescribesOne) {
  const CommandResult result = RunMillrace({"ops", "Conv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("Conv("), HasSubstr("kernel_shape"), HasSubstr("tier"),
                                HasSubstr("gradient"), HasSubstr("reference"), HasSubstr("f32")));
}

TEST(Ops, EveryOpWithAReferenceKernelShowsKernels) {
  const nlohmann::json ops = RunMillrace({"ops", "--json"}).Json()["ops"];
  ASSERT_EQ(ops.size(), AllOps().size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (AllOps()[i].reference == nullptr || AllOps()[i].traits.host_call) continue;
    int types = 0;
    for (const auto& [dtype, kernels] : ops[i]["cpu_kernels"].items()) {
      if (kernels.empty()) continue;
      ++types;
      EXPECT_EQ(kernels.back(), "reference") << ops[i]["name"] << " " << dtype;
    }
    EXPECT_GT(types, 0) << ops[i]["name"];
  }
}

TEST(Devices, TheCpuIsThereAndCudaIsThereOrExplained) {
  const CommandResult result = RunMillrace({"devices"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ncpu:0"));
  EXPECT_THAT(result.out, testing::AnyOf(HasSubstr("\ncuda:0"), HasSubstr("\nno cuda devices: ")));
}

TEST(Devices, Json) {
  const nlohmann::json document = RunMillrace({"devices", "--json"}).Json();
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["machine"]["format"], "millrace-machine");
  EXPECT_EQ(document.contains("cuda_unavailable"), document["cuda"].empty());
}

}  // namespace
}  // namespace millrace
