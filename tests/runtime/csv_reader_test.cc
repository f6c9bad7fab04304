#include "runtime/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string WriteFile(std::string_view text) {
  static const TemporaryFolder folder;
  const std::string path = folder.File("test.csv");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string WriteGzip(const std::string& text) {
  static const TemporaryFolder folder;
  const std::string path = folder.File("test.csv.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  return path;
}

std::vector<float> Floats(const Tensor& tensor) {
  const auto data = tensor.data<float>();
  return {data.begin(), data.end()};
}

TEST(CsvReaderTest, ReadsTheColumnsAskedFor) {
  const auto tensor = ReadCsv(WriteFile("1,2,3\n4, 5.5 ,-6e1\r\n\n+7,8,9"), 1, 2);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), Shape({3, 2}));
  EXPECT_THAT(Floats(*tensor), ElementsAre(2, 3, 5.5f, -60, 8, 9));
}

TEST(CsvReaderTest, OtherColumnsNeedNotBeNumbers) {
  const auto tensor = ReadCsv(WriteFile("cat,1,\ndog,2,x\n"), 1, 1);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(Floats(*tensor), ElementsAre(1, 2));
}

TEST(CsvReaderTest, ReadsCompressedFilesAcrossChunks) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + "," + std::to_string(2 * i) + "\n";
  const auto tensor = ReadCsv(WriteGzip(text), 0, 1);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(tensor->shape(), Shape({50000, 2}));
  for (int i = 0; i < 50000; ++i) {
    ASSERT_EQ(tensor->data<float>()[2 * i], i);
    ASSERT_EQ(tensor->data<float>()[2 * i + 1], 2 * i);
  }
}

TEST(CsvReaderTest, TheDigits) {
  const auto tensor =
      ReadCsv(std::string(MILLRACE_SOURCE_DIR) + "/tests/data/digits/digits.csv.gz", 0, 64);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(tensor->shape(), Shape({1797, 65}));
  for (float value : tensor->data<float>()) ASSERT_TRUE(value >= 0 && value <= 16);
}

TEST(CsvReaderTest, NonFiniteNumbersAreNumbers) {
  const auto tensor = ReadCsv(WriteFile("nan,-inf,1e-60\n"), 0, 2);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_TRUE(std::isnan(Floats(*tensor)[0]));
  EXPECT_EQ(Floats(*tensor)[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Floats(*tensor)[2], 0);
}

TEST(CsvReaderTest, AnEmptyFileHasNoRows) {
  const auto tensor = ReadCsv(WriteFile(""), 0, 3);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), Shape({0, 4}));
}

TEST(CsvReaderTest, RefusesATruncatedCompressedFile) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += std::to_string(i * 7919 % 1000003) + "\n";
  const std::string path = WriteGzip(text);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});

  const auto tensor = ReadCsv(WriteFile(std::string_view(bytes).substr(0, bytes.size() / 2)), 0, 0);

  EXPECT_EQ(tensor.status().code(), BadInputError("").code());
}

TEST(CsvReaderTest, RefusesALineWithoutEnd) {
  const auto tensor = ReadCsv(WriteGzip(std::string(17 << 20, '1')), 0, 0);
  EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(":1: the line is too long"));
}

TEST(CsvReaderTest, RefusesMissingFilesFoldersAndWrongColumns) {
  EXPECT_EQ(ReadCsv("/nonexistent.csv", 0, 0).status().code(), MissingFileError("").code());
  EXPECT_FALSE(ReadCsv(testing::TempDir(), 0, 0).ok());
  EXPECT_EQ(ReadCsv("x", 2, 1).status().code(), UsageError("").code());
  EXPECT_EQ(ReadCsv("x", -1, 1).status().code(), UsageError("").code());
}

}  // namespace
}  // namespace millrace
