// Archives written by NumPy 2 (tests/data/training/README.md).
#include "runtime/npz_reader.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Archive(const std::string& name) {
  return std::string(MILLRACE_SOURCE_DIR) + "/tests/data/training/" + name;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(NpzReaderTest, ReadsStoredAndDeflatedArrays) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(name);
    const auto x = ReadNpz(Archive(name), "x");
    ASSERT_TRUE(x.ok()) << x.status();
    EXPECT_EQ(x->type(), (TensorType{DType::kF32, {3, 40}}));
    for (int64_t i = 0; i < 120; ++i) ASSERT_EQ(x->AsDouble(i), 0.5 * static_cast<double>(i));
    const auto labels = ReadNpz(Archive(name), "labels");
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_THAT(labels->data<int64_t>(), ElementsAre(2, 0, 1));
  }
}

TEST(NpzReaderTest, NamesTheNearestArray) {
  const auto missing = ReadNpz(Archive("stored.npz"), "label");
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("has no array 'label'; did you mean 'labels'?"));
}

// Whatever byte is spoiled and wherever the file is cut, an array that comes out is the right one.
TEST(NpzReaderTest, SpoiledArchivesAreRefused) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/spoiled.npz";
  const std::string whole = ReadAll(Archive("deflated.npz"));
  const Tensor x = *ReadNpz(Archive("deflated.npz"), "x");
  const auto check = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto read = ReadNpz(path, "x");
    EXPECT_TRUE(!read.ok() || BitEqual(*read, x));
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (i % 2 == 0 ? 1 : -1));
    check(bytes);
    if (i % 16 == 0) check(whole.substr(0, i));
  }
}

}  // namespace
}  // namespace millrace
