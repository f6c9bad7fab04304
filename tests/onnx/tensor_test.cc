// Tensors in every encoding that ONNX has, and in none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/files.h"
#include "graph/strings.h"
#include "ops/onnx/proto.h"
#include "ops/onnx/tensor_proto.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

onnx::TensorProto Proto(int32_t data_type, std::vector<int64_t> dims) {
  onnx::TensorProto proto;
  proto.set_data_type(data_type);
  for (const int64_t dim : dims) proto.add_dims(dim);
  return proto;
}

absl::StatusOr<Tensor> Take(onnx::TensorProto proto, const std::string& folder = "") {
  ExternalData external(folder);
  return TakeTensor(proto, external);
}

std::string ErrorOf(const onnx::TensorProto& proto, const std::string& folder = "") {
  const absl::StatusOr<Tensor> tensor = Take(proto, folder);
  if (tensor.ok()) return "taken";
  EXPECT_EQ(ExitCode(tensor.status()), 3);
  return std::string(StdView(tensor.status().message()));
}

std::vector<double> Values(const absl::StatusOr<Tensor>& tensor) {
  std::vector<double> values;
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return values;
  for (int64_t i = 0; i < tensor->num_elements(); ++i) values.push_back(tensor->AsDouble(i));
  return values;
}

TEST(OnnxTensor, TypedFields) {
  onnx::TensorProto f32 = Proto(1, {2});
  f32.add_float_data(1.5f);
  f32.add_float_data(-2);
  EXPECT_THAT(Values(Take(f32)), ElementsAre(1.5, -2));
  onnx::TensorProto f64 = Proto(11, {1});
  f64.add_double_data(0.1);
  EXPECT_THAT(Values(Take(f64)), ElementsAre(0.1));
  onnx::TensorProto i64 = Proto(7, {});
  i64.add_int64_data(int64_t{1} << 60);
  EXPECT_EQ(Take(i64)->AsInt64(0), int64_t{1} << 60);
  onnx::TensorProto u64 = Proto(13, {1});
  u64.add_uint64_data(~uint64_t{0});
  EXPECT_EQ(Take(u64)->data<uint64_t>()[0], ~uint64_t{0});
  onnx::TensorProto u32 = Proto(12, {1});
  u32.add_uint64_data(4'000'000'000);
  EXPECT_THAT(Values(Take(u32)), ElementsAre(4e9));
}

// int32_data holds all integers up to 32 bits, bools, and halves as the bits they are.
TEST(OnnxTensor, Int32Data) {
  const struct {
    int32_t data_type, stored;
    double value;
  } kCases[] = {{2, 200, 200},       {3, -100, -100},  {4, 60000, 60000},
                {5, -30000, -30000}, {6, -7, -7},      {9, 1, 1},
                {10, 0x3e00, 1.5},   {10, 0xc000, -2}, {16, 0x3fc0, 1.5}};
  for (const auto& c : kCases) {
    onnx::TensorProto proto = Proto(c.data_type, {1});
    proto.add_int32_data(c.stored);
    EXPECT_THAT(Values(Take(proto)), ElementsAre(c.value)) << OnnxTypeName(c.data_type);
  }
}

TEST(OnnxTensor, RawData) {
  onnx::TensorProto small = Proto(5, {2});
  small.set_raw_data(std::string("\x01\x00\xff\xff", 4));
  EXPECT_THAT(Values(Take(small)), ElementsAre(1, -1));
  // A bool of ours is 0 or 1, whatever the file's byte.
  onnx::TensorProto flags = Proto(9, {2});
  flags.set_raw_data(std::string("\x00\x07", 2));
  EXPECT_EQ(Take(flags)->bytes()[1], std::byte(1));
  onnx::TensorProto nothing = Proto(1, {0, 4});
  EXPECT_EQ(ToString(Take(nothing)->type()), "f32[0,4]");
}

TEST(OnnxTensor, LargeRawDataAreMovedNotCopied) {
  onnx::TensorProto proto = Proto(1, {1000});
  proto.set_raw_data(std::string(4000, 'x'));
  const void* before = proto.raw_data().data();
  ExternalData external("");
  const absl::StatusOr<Tensor> tensor = TakeTensor(proto, external);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes(), before);
  EXPECT_TRUE(proto.raw_data().empty());
}

TEST(OnnxTensor, WhatDoesNotFit) {
  onnx::TensorProto raw = Proto(1, {2});
  raw.set_raw_data("12345");
  EXPECT_EQ(ErrorOf(raw), "raw_data does not fit the type; expected 8 bytes for f32[2], found 5");
  EXPECT_EQ(ErrorOf(Proto(1, {3})),
            "float_data does not fit the type; expected 3 elements for f32[3], found 0");
  onnx::TensorProto wide = Proto(2, {2});
  wide.add_int32_data(1);
  wide.add_int32_data(300);
  EXPECT_EQ(ErrorOf(wide), "element 1 of int32_data is 300, which is no value of u8");
  EXPECT_EQ(ErrorOf(Proto(1, {-1})), "dims [-1] are negative or too large");
  EXPECT_EQ(ErrorOf(Proto(1, {INT64_MAX, 2})),
            "dims [9223372036854775807,2] are negative or too large");
  EXPECT_EQ(ErrorOf(Proto(1, {1 << 20, 1 << 20, 1 << 20, 1 << 20})),
            "dims [1048576,1048576,1048576,1048576] are negative or too large");
  EXPECT_EQ(ErrorOf(Proto(1, std::vector<int64_t>(9, 1))), "rank 9; expected at most 8");
}

TEST(OnnxTensor, TypesThatMillraceLacks) {
  for (const auto& [type, name] : std::vector<std::pair<int, const char*>>{
           {8, "string"}, {14, "complex64"}, {17, "float8e4m3fn"}, {22, "int4"}}) {
    EXPECT_EQ(ErrorOf(Proto(type, {1})),
              StrCat("elements of type ", std::string(name), " are not supported"));
  }
  EXPECT_EQ(ErrorOf(Proto(99, {1})), "elements of type data type 99 are not supported");
}

// --- Sparse tensors ----------------------------------------------------------------------------

onnx::SparseTensorProto Sparse(std::vector<int64_t> dims, std::vector<float> values,
                               std::vector<int64_t> index_dims, std::vector<int64_t> indices) {
  onnx::SparseTensorProto sparse;
  for (const int64_t dim : dims) sparse.add_dims(dim);
  *sparse.mutable_values() = Proto(1, {std::ssize(values)});
  for (const float value : values) sparse.mutable_values()->add_float_data(value);
  *sparse.mutable_indices() = Proto(7, index_dims);
  for (const int64_t index : indices) sparse.mutable_indices()->add_int64_data(index);
  return sparse;
}

absl::StatusOr<Tensor> TakeSparse(onnx::SparseTensorProto sparse) {
  ExternalData external("");
  return TakeSparseTensor(sparse, external);
}

TEST(OnnxTensor, SparseByPositionOrCoordinates) {
  EXPECT_THAT(Values(TakeSparse(Sparse({2, 3}, {5, 7}, {2}, {1, 5}))),
              ElementsAre(0, 5, 0, 0, 0, 7));
  EXPECT_THAT(Values(TakeSparse(Sparse({2, 3}, {5, 7}, {2, 2}, {0, 1, 1, 2}))),
              ElementsAre(0, 5, 0, 0, 0, 7));
}

TEST(OnnxTensor, SparseThatIsWrong) {
  const auto error = [](onnx::SparseTensorProto sparse) {
    return std::string(StdView(TakeSparse(std::move(sparse)).status().message()));
  };
  EXPECT_EQ(error(Sparse({2, 3}, {5}, {1}, {6})),
            "sparse index 6 of value 0 is out of range [0,6)");
  EXPECT_EQ(error(Sparse({2, 3}, {5}, {1, 2}, {0, -1})),
            "sparse index -1 of value 0 is out of range [0,3)");
  EXPECT_EQ(error(Sparse({2, 3}, {5}, {2}, {0, 1})),
            "sparse indices do not fit; expected i64[1] or i64[1,2], found i64[2]");
  EXPECT_THAT(error(Sparse({1 << 20, 1 << 20}, {5}, {1}, {6})),
              HasSubstr("of 1 values is too large to be stored densely"));
}

// --- External data -----------------------------------------------------------------------------

onnx::TensorProto External(std::vector<std::pair<std::string, std::string>> entries) {
  onnx::TensorProto proto = Proto(1, {2});
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    proto.add_external_data()->set_key(key);
    proto.mutable_external_data(proto.external_data_size() - 1)->set_value(value);
  }
  return proto;
}

class OnnxExternalData : public testing::Test {
 protected:
  void SetUp() override {
    const float values[] = {1, 2, 3, 4};
    const std::string bytes(reinterpret_cast<const char*>(values), sizeof(values));
    ASSERT_TRUE(WriteFileAtomically(folder_.File("w.bin"), bytes).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_.File("odd.bin"), "?" + bytes).ok());
  }
  TemporaryFolder folder_;
};

TEST_F(OnnxExternalData, IsMappedFromItsOffset) {
  EXPECT_THAT(Values(Take(External({{"location", "w.bin"}}), folder_.path())), ElementsAre(1, 2));
  EXPECT_THAT(Values(Take(External({{"location", "w.bin"}, {"offset", "8"}, {"length", "8"}}),
                          folder_.path())),
              ElementsAre(3, 4));
  EXPECT_THAT(Values(Take(External({{"location", "odd.bin"}, {"offset", "9"}}), folder_.path())),
              ElementsAre(3, 4));
}

TEST_F(OnnxExternalData, StaysInTheFileAndTheFolder) {
  const auto error = [&](std::vector<std::pair<std::string, std::string>> entries) {
    return ErrorOf(External(std::move(entries)), folder_.path());
  };
  EXPECT_EQ(error({{"location", "w.bin"}, {"offset", "12"}}),
            "external_data: 8 bytes from byte 12 run past the end of 'w.bin', which has 16");
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "9223372036854775807"}}),
              HasSubstr("run past the end"));
  EXPECT_EQ(error({{"location", "w.bin"}, {"offset", "-4"}}),
            "external_data: 'offset' is '-4'; expected bytes");
  EXPECT_EQ(error({{"location", "w.bin"}, {"length", "4"}}),
            "external_data in 'w.bin' does not fit the type; expected 8 bytes for f32[2], found 4");
  EXPECT_EQ(error({}), "external_data names no 'location'");
  EXPECT_THAT(error({{"location", "../w.bin"}}), HasSubstr("has a '..' part"));
  EXPECT_THAT(error({{"location", "/etc/passwd"}}), HasSubstr("is absolute"));
  EXPECT_THAT(error({{"location", "gone.bin"}}), HasSubstr("gone.bin"));
  std::filesystem::create_symlink("/etc/passwd", folder_.File("link"));
  EXPECT_THAT(error({{"location", "link"}}), HasSubstr("leads outside the folder"));
}

}  // namespace
}  // namespace millrace
