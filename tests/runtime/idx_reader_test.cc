#include "runtime/idx_reader.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text.push_back(static_cast<char>(byte));
  return text;
}

class IdxReaderTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string WriteGzip(const std::string& name, const std::string& bytes) {
    const std::string path = folder_.path() + "/" + name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }
  std::string ErrorOf(const std::string& bytes) {
    const auto tensor = ReadIdx(Write("bad.idx", bytes));
    EXPECT_FALSE(tensor.ok());
    return std::string(tensor.status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(IdxReaderTest, ReadsBytes) {
  const auto tensor =
      ReadIdx(Write("x.idx", Bytes({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255})));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->type(), (TensorType{DType::kU8, {2, 3}}));
  EXPECT_THAT(tensor->data<uint8_t>(), ElementsAre(1, 2, 3, 4, 5, 255));
}

TEST_F(IdxReaderTest, ReadsBigEndianNumbersFromGzip) {
  const auto ints = ReadIdx(
      WriteGzip("i.idx.gz", Bytes({0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 1, 2, 255, 255, 255, 254})));
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT(ints->data<int32_t>(), ElementsAre(258, -2));
  const auto floats =
      ReadIdx(WriteGzip("f.idx.gz", Bytes({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0})));
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_THAT(floats->data<float>(), ElementsAre(1.5f));
}

TEST_F(IdxReaderTest, RefusesWhatIsMalformed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("not an IDX file"));
  EXPECT_THAT(ErrorOf(Bytes({1, 0, 8, 1, 0, 0, 0, 0})), HasSubstr("not an IDX file"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 7, 1, 0, 0, 0, 0})), HasSubstr("unknown type"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 200})), HasSubstr("too many dims"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 2, 0, 0, 0, 1, 0})), HasSubstr("ends in its header"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2})), HasSubstr("size of the array"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 1, 0, 0, 0, 1, 1, 2})), HasSubstr("size of the array"));
  // Claims 2^64 bytes, and 16 MiB, in a file of some bytes.
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255})),
              HasSubstr("cannot hold as much"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 1, 1, 0, 0, 0})), HasSubstr("cannot hold as much"));
}

TEST_F(IdxReaderTest, NoticesCutAndSpoiledGzip) {
  const std::string path =
      WriteGzip("whole.idx.gz", Bytes({0, 0, 8, 1, 0, 0, 0, 5, 1, 2, 3, 4, 5}));
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(ErrorOf(whole.substr(0, whole.size() - 2)), HasSubstr("end too early"));
  EXPECT_THAT(ErrorOf(whole.substr(0, 12)), HasSubstr("end too early"));
  std::string sum = whole;  // of the CRC that the trailer begins with
  sum[sum.size() - 8] ^= 1;
  EXPECT_THAT(ErrorOf(sum), HasSubstr("the compressed data are spoiled"));
  std::string block = whole;  // of the first block's type: there is no such
  block[10] |= 6;
  EXPECT_THAT(ErrorOf(block), HasSubstr("the compressed data are spoiled"));
}

}  // namespace
}  // namespace millrace
