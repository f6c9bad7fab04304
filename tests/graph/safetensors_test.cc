#include "graph/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "graph/files.h"
#include "graph/strings.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  // A file with this header and as many data bytes 0, 1, 2, ...
  static std::string File(std::string_view header, int data_bytes) {
    std::string file;
    for (int i = 0; i < 8; ++i)
      file += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
    file += header;
    for (int i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
    return file;
  }

  absl::StatusOr<SafetensorsFile> Open(std::string_view bytes) {
    EXPECT_TRUE(WriteFileAtomically(path_, bytes).ok());
    return SafetensorsFile::Open(path_);
  }

  std::string Error(std::string_view bytes) {
    const absl::Status status = Open(bytes).status();
    EXPECT_EQ(ExitCode(status), 3) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("file.safetensors");
};

Tensor Counting(const TensorType& type) {
  Tensor tensor = Tensor::Zeros(type);
  const double step = type.dtype == DType::kBool ? 0 : 1;
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    tensor.Set(i, 1 + step * static_cast<double>(i));
  return tensor;
}

TEST_F(SafetensorsTest, RoundTripsEveryTypeInTheOrderGiven) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    tensors.emplace_back(StrCat(DTypeName(dtype), " \"quoted\""), Counting({dtype, {3}}));
  }
  tensors.emplace_back("scalar", Counting({DType::kF64, {}}));
  tensors.emplace_back("empty", Counting({DType::kI16, {2, 0}}));
  ASSERT_TRUE(WriteSafetensors(path_, tensors, {{"by", "test"}, {"a", "b"}}).ok());

  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->names().size(), tensors.size());
  EXPECT_EQ(file->metadata().at("by"), "test");
  for (const auto& [name, tensor] : tensors) {
    const absl::StatusOr<Tensor> read = file->Get(name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(BitEqual(*read, tensor)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->bytes()) % SizeOf(read->dtype()), 0u) << name;
  }
}

TEST_F(SafetensorsTest, TheBytesAreThoseOfTheFormat) {
  ASSERT_TRUE(WriteSafetensors(
                  path_, {{"b", Counting({DType::kU8, {2}})}, {"w", Counting({DType::kU16, {1}})}})
                  .ok());
  EXPECT_EQ(*ReadFile(path_),
            StrCat(std::string_view("\x70\0\0\0\0\0\0\0", 8),
                   "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
                   "\"w\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[0,2]}}      ",
                   std::string_view("\1\0\1\2", 4)));
}

TEST_F(SafetensorsTest, TensorsShareTheMappingAndOutliveTheFile) {
  Tensor a, b;
  {
    ASSERT_TRUE(WriteSafetensors(path_, {{"a", Counting({DType::kF32, {1000}})}}).ok());
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
    a = *file->Get("a");
    b = *file->Get("a");
  }
  std::filesystem::remove(path_);
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(a.data<float>()[999], 1000.0f);
}

TEST_F(SafetensorsTest, DataAtOddPlacesAreCopiedIntoPlace) {
  // A header of odd length, as other writers may leave it.
  const auto file = Open(File(R"({"a":{"dtype":"U32","shape":[1],"data_offsets":[0,4]}} )", 4));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Get("a")->data<uint32_t>()[0], 0x03020100u);
}

TEST_F(SafetensorsTest, AMissingTensorSuggestsTheNearest) {
  const auto file =
      Open(File(R"({"fc.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_EQ(StdView(file->Get("fc.wieght").status().message()),
            StrCat("'", path_, "' has no tensor 'fc.wieght'; did you mean 'fc.weight'?"));
}

TEST_F(SafetensorsTest, NamesOfAWrittenFileAreUnique) {
  const Tensor t = Counting({DType::kU8, {1}});
  EXPECT_EQ(ExitCode(WriteSafetensors(path_, {{"a", t}, {"a", t}})), 2);
  EXPECT_EQ(ExitCode(WriteSafetensors(path_, {{"__metadata__", t}})), 2);
}

TEST_F(SafetensorsTest, BoolsMustBeZeroOrOne) {
  const auto file = Open(File(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 3));
  ASSERT_TRUE(file.ok());  // what is inside is looked at when it is asked for
  EXPECT_THAT(std::string(file->Get("a").status().message()), HasSubstr("byte 65: a bool of tensor 'a'; expected 0 or 1, found 2"));
}

TEST_F(SafetensorsTest, EveryPrefixOfAGoodFileIsRefused) {
  const std::string good = File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  ASSERT_TRUE(Open(good).ok());
  for (size_t n = 0; n < good.size(); ++n) Error(std::string_view(good).substr(0, n));
}

}  // namespace
}  // namespace millrace
