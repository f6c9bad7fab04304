#include "graph/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "graph/strings.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    fs::create_directories(Path("inside/deep"));
    fs::create_directories(Path("outside"));
  }

  std::string Path(std::string_view name) const { return folder_.File(name); }
  void Write(std::string_view name, std::string_view contents) {
    ASSERT_TRUE(WriteFileAtomically(Path(name), contents).ok());
  }

  const TemporaryFolder folder_;
};

TEST_F(FilesTest, WritesAndReadsBytes) {
  const std::string contents("a\0b\n\xff", 5);
  Write("f", contents);
  EXPECT_EQ(*ReadFile(Path("f")), contents);
  const std::string_view parts[] = {"one ", "", "two"};
  ASSERT_TRUE(WriteFileAtomically(Path("f"), parts).ok());
  EXPECT_EQ(*ReadFile(Path("f")), "one two");
  Write("f", "");
  EXPECT_EQ(*ReadFile(Path("f")), "");
}

TEST_F(FilesTest, ReadsMoreThanOneChunk) {
  const std::string contents(1 << 20, 'x');
  Write("f", contents);
  EXPECT_EQ(*ReadFile(Path("f")), contents);
  EXPECT_EQ(ReadFile("/proc/self/status")->substr(0, 5),
            "Name:");  // a file whose size is said to be 0
}

TEST_F(FilesTest, ReadErrorsNameTheFileAndTheReason) {
  EXPECT_EQ(StdView(ReadFile(Path("gone")).status().message()),
            StrCat("cannot read '", Path("gone"), "': No such file or directory"));
  EXPECT_EQ(ReadFile(Path("gone")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ExitCode(ReadFile(folder_.path()).status()), 3);
  Write("f", "12345");
  EXPECT_EQ(*ReadFile(Path("f"), 5), "12345");
  EXPECT_EQ(ExitCode(ReadFile(Path("f"), 4).status()), 3);
  EXPECT_EQ(ExitCode(ReadFile("/dev/zero", 1000).status()), 3);  // endless
}

TEST_F(FilesTest, DevicesAreNotRead) {
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/full"}) {
    EXPECT_EQ(StdView(ReadFile(device).status().message()),
              StrCat("cannot read '", device, "': a device, not a file"));
  }
}

TEST_F(FilesTest, APipeIsReadToItsEnd) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    usleep(50'000);  // later than the reader
    std::ofstream(Path("pipe")) << std::string(1 << 20, 'x');
  });
  const absl::StatusOr<std::string> text = ReadFile(Path("pipe"));
  writer.join();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, std::string(1 << 20, 'x'));
}

TEST_F(FilesTest, APipeThatNobodyUsesDoesNotHang) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadFile(Path("pipe")).status().message()),
              HasSubstr("a pipe that nobody writes to"));
  EXPECT_THAT(std::string(WriteFileAtomically(Path("pipe"), "x").message()),
              HasSubstr("a pipe that nobody reads"));
}

TEST_F(FilesTest, WhatCannotBeWrittenIsKnownBefore) {
  EXPECT_TRUE(CheckCanWrite(Path("new")).ok());
  EXPECT_FALSE(fs::exists(Path("new")));
  EXPECT_TRUE(CheckCanWrite("/dev/full").ok());  // fails later
  EXPECT_EQ(StdView(CheckCanWrite(Path("no/new")).message()),
            StrCat("cannot write '", Path("no/new"), "': No such file or directory"));
  EXPECT_THAT(std::string(CheckCanWrite(folder_.path()).message()), HasSubstr("Is a directory"));
  EXPECT_EQ(ExitCode(CheckCanWrite(folder_.path())), 2);
}

TEST_F(FilesTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  EXPECT_EQ(ExitCode(WriteFileAtomically(Path("no/such/folder"), "x")), 2);
  fs::create_directories(Path("d/child"));
  EXPECT_FALSE(WriteFileAtomically(Path("d"), "x").ok());  // a folder is in the way
  EXPECT_FALSE(WriteFileAtomically("/dev/full", "x").ok());
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    files += entry.path().extension() == ".tmp";
  EXPECT_EQ(files, 0u);
}

TEST_F(FilesTest, WritingReplacesTheFileAndKeepsMappingsOfTheOldOne) {
  Write("f", "old");
  const absl::StatusOr<MappedFile> old = MapFile(Path("f"));
  ASSERT_TRUE(old.ok());
  Write("f", "new!");
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(old->bytes.get()), 3), "old");
  EXPECT_EQ(MapFile(Path("f"))->size, 4);
}

TEST_F(FilesTest, Mappings) {
  Write("f", "hello");
  std::shared_ptr<const std::byte> bytes;
  {
    const absl::StatusOr<MappedFile> file = MapFile(Path("f"));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->size, 5);
    bytes = file->bytes;
  }
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.get()), 5), "hello");
  Write("empty", "");
  EXPECT_EQ(MapFile(Path("empty"))->bytes, nullptr);
  EXPECT_EQ(ExitCode(MapFile(Path("gone")).status()), 3);
  EXPECT_EQ(ExitCode(MapFile(folder_.path()).status()), 3);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ExitCode(MapFile(Path("pipe")).status()), 3);  // and does not hang
}

TEST_F(FilesTest, PathsInsideAFolder) {
  Write("inside/a", "");
  Write("inside/deep/b", "");
  Write("outside/c", "");
  const std::string root = fs::canonical(Path("inside"));
  EXPECT_EQ(*ResolveInside(Path("inside"), "a"), root + "/a");
  EXPECT_EQ(*ResolveInside(Path("inside"), "./deep//b"), root + "/deep/b");
  fs::create_symlink("deep/b", Path("inside/link"));
  EXPECT_EQ(*ResolveInside(Path("inside"), "link"), root + "/deep/b");
}

TEST_F(FilesTest, PathsThatLeaveAFolderAreRefused) {
  Write("outside/c", "");
  Write("inside/a", "");
  fs::create_directories(Path("inside2"));
  Write("inside2/a", "");
  fs::create_symlink("../outside", Path("inside/link"));
  fs::create_symlink("../inside2/a", Path("inside/sibling"));  // a prefix of its name is not enough
  const struct {
    std::string path;
    const char* why;
  } cases[] = {{"../outside/c", "has a '..' part"},
               {"deep/../a", "has a '..' part"},
               {"..", "has a '..' part"},
               {Path("inside/a"), "is absolute"},
               {"", "is empty"},
               {std::string("a\0b", 3), "has a zero byte"},
               {"link/c", "leads outside the folder"},
               {"link", "leads outside the folder"},
               {"sibling", "leads outside the folder"}};
  for (const auto& c : cases) {
    const absl::Status status = ResolveInside(Path("inside"), c.path).status();
    EXPECT_EQ(status.code(), BadInputError("").code()) << c.path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.why));
  }
  EXPECT_EQ(ResolveInside(Path("inside"), "gone").status().code(), MissingFileError("").code());
  EXPECT_TRUE(ResolveInside(Path("inside"), "a..b").status().code() == MissingFileError("").code());
}

TEST_F(FilesTest, HardLinksAreNotMappedInside) {
  Write("outside/c", "secret");
  Write("inside/a", "mine");
  fs::create_hard_link(Path("outside/c"), Path("inside/c"));
  EXPECT_EQ(MapFileInside(Path("inside"), "a")->size, 4);
  const absl::Status status = MapFileInside(Path("inside"), "c").status();
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 2 names (hard links)"));
  EXPECT_EQ(MapFile(Path("inside/c"))->size, 6);  // named by the user, not by a file
}

TEST(FileNamesTest, Directories) {
  EXPECT_EQ(DirectoryOf("a/b/c.json"), "a/b");
  EXPECT_EQ(DirectoryOf("c.json"), "");
  EXPECT_EQ(DirectoryOf("/c.json"), "/");
}

TEST(Sha256Test, KnownAnswers) {  // FIPS 180-2, appendix B
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace millrace
