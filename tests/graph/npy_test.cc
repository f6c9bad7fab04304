#include "graph/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "graph/files.h"
#include "graph/strings.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  void Write(std::string_view bytes) { ASSERT_TRUE(WriteFileAtomically(path_, bytes).ok()); }

  // A file of the given version with this header dict and these data.
  static std::string File(std::string_view dict, std::string_view data, int version = 1) {
    const std::string header = StrCat(dict, "\n");
    std::string file =
        StrCat("\x93NUMPY", std::string(1, static_cast<char>(version)), std::string(1, '\0'));
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
      file += static_cast<char>(header.size() >> (8 * i));
    }
    return StrCat(file, header, data);
  }

  Tensor Read(std::string_view bytes) {
    Write(bytes);
    absl::StatusOr<Tensor> tensor = ReadNpy(path_);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.ok() ? *std::move(tensor) : Tensor();
  }

  std::string Error(std::string_view bytes) {
    Write(bytes);
    const absl::Status status = ReadNpy(path_).status();
    EXPECT_EQ(ExitCode(status), 3) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("file.npy");
};

TEST_F(NpyTest, RoundTripsEveryTypeAndRank) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    if (dtype == DType::kBF16) continue;
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 4}, Shape{1, 2, 1, 2, 1, 1, 2, 3}}) {
      Tensor tensor = Tensor::Zeros({dtype, shape});
      for (int64_t i = 0; i < tensor.num_elements(); ++i)
        tensor.Set(i, static_cast<double>(i % 2 + i));
      ASSERT_TRUE(WriteNpy(path_, tensor).ok());
      const absl::StatusOr<Tensor> again = ReadNpy(path_);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(BitEqual(*again, tensor)) << ToString(tensor.type());
    }
  }
}

TEST_F(NpyTest, WritesTheBytesThatNumPyWrites) {
  const int32_t values[] = {1, 2};
  ASSERT_TRUE(WriteNpy(path_, Tensor::FromSpan<int32_t>({2}, values)).ok());
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  header.append(117 - header.size(), ' ');
  EXPECT_EQ(*ReadFile(path_), StrCat(std::string_view("\x93NUMPY\x01\0v\0", 10), header, "\n",
                                     std::string_view("\1\0\0\0\2\0\0\0", 8)));
  ASSERT_TRUE(WriteNpy(path_, Tensor::Scalar<int32_t>(7)).ok());
  EXPECT_THAT(*ReadFile(path_), HasSubstr("'shape': (), }"));
}

TEST_F(NpyTest, BFloat16IsWrittenAsItsBits) {
  ASSERT_TRUE(WriteNpy(path_, Tensor::Scalar(BFloat16(1.0f))).ok());
  EXPECT_EQ(ReadNpy(path_)->data<uint16_t>()[0], 0x3f80);
}

TEST_F(NpyTest, AllVersionsAndSpellings) {
  const std::string data("\1\2\3\4", 4);
  for (const int version : {1, 2, 3}) {
    const Tensor t =
        Read(File("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", data, version));
    EXPECT_EQ(t.type(), (TensorType{DType::kU8, {4}}));
  }
  const Tensor t = Read(File("{\"shape\":(2L,2),'fortran_order':False,\"descr\":\"=u1\"}", data));
  EXPECT_EQ(t.shape(), Shape({2, 2}));
  EXPECT_EQ(t.data<uint8_t>()[3], 4);
}

TEST_F(NpyTest, FortranOrderIsTransposed) {
  // [[1, 2, 3], [4, 5, 6]] stored by columns.
  const Tensor t =
      Read(File("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"));
  EXPECT_THAT(t.data<int8_t>(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  const Tensor cube =
      Read(File("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 1, 2), }", "\1\2\3\4"));
  EXPECT_THAT(cube.data<int8_t>(), ::testing::ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(
      Read(File("{'descr': '|i1', 'fortran_order': True, 'shape': (), }", "\7")).data<int8_t>()[0],
      7);
}

TEST_F(NpyTest, BoolsBecomeZeroOrOne) {
  const Tensor t = Read(
      File("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\0\1\2", 3)));
  EXPECT_EQ(std::memcmp(t.bytes(), "\0\1\1", 3), 0);
}

TEST_F(NpyTest, EveryPrefixOfAGoodFileIsRefused) {
  const std::string good =
      File("{'descr': '<f4', 'fortran_order': False, 'shape': (1, ), }", "1234");
  Read(good);
  for (size_t n = 0; n < good.size(); ++n) Error(std::string_view(good).substr(0, n));
}

}  // namespace
}  // namespace millrace
