#include "tests/adversary/operand_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::byte* Bytes(void* p) { return static_cast<std::byte*>(p); }

// Memory of 64 bytes, each its own number; operands [0,16) read, [32,48) written.
class OperandGuardTest : public ::testing::Test {
 protected:
  OperandGuardTest() {
    for (int i = 0; i < 64; ++i) memory_[i] = std::byte(i);
    guard_.Add(memory_, 16, /*read=*/true, /*written=*/false, "x");
    guard_.Add(memory_ + 32, 16, /*read=*/false, /*written=*/true, "y");
  }
  std::string ErrorOf(absl::FunctionRef<void(std::byte* x, std::byte* y)> kernel) {
    const absl::Status status = guard_.Run([&](const std::vector<void*>& at) {
      kernel(Bytes(at[0]), Bytes(at[1]));
      return absl::OkStatus();
    });
    return std::string(status.message());
  }

  alignas(64) std::byte memory_[64];
  OperandGuard guard_;
};

TEST_F(OperandGuardTest, ResultsComeBackAndNothingElseChanges) {
  EXPECT_EQ(ErrorOf([&](std::byte* x, std::byte* y) {
              EXPECT_NE(x, memory_);
              EXPECT_EQ(x[3], std::byte{3});
              std::memcpy(y, x, 16);
            }),
            "");
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(memory_[i], std::byte(i >= 32 && i < 48 ? i - 32 : i)) << i;
  }
}

TEST_F(OperandGuardTest, ResultsAreNaNsUntilTheyAreWritten) {
  ErrorOf([](std::byte*, std::byte* y) {
    float value;
    std::memcpy(&value, y, sizeof(value));
    EXPECT_TRUE(value != value);
    y[0] = std::byte{1};
  });
  EXPECT_EQ(memory_[33], std::byte{0xFF});  // not written: shows
}

TEST_F(OperandGuardTest, WritesOutsideAreFound) {
  EXPECT_THAT(ErrorOf([](std::byte*, std::byte* y) { y[16] = std::byte{0}; }),
              HasSubstr("writes 1 bytes past operand y"));
  EXPECT_THAT(ErrorOf([](std::byte*, std::byte* y) { y[-2] = std::byte{0}; }),
              HasSubstr("writes 2 bytes before operand y"));
}

TEST_F(OperandGuardTest, WritesToWhatIsReadAreFound) {
  EXPECT_THAT(ErrorOf([](std::byte* x, std::byte*) { x[5] = std::byte{0}; }),
              HasSubstr("writes to operand x, which it reads"));
}

TEST(OperandGuardAliasTest, OperandsOnTheSameBytesStayTogether) {
  std::byte memory[16] = {std::byte{7}};
  OperandGuard guard;
  guard.Add(memory, 16, /*read=*/true, /*written=*/false, "x");
  guard.Add(memory, 8, /*read=*/false, /*written=*/true, "y");
  guard.Add(nullptr, 0, false, false, "");
  const absl::Status status = guard.Run([](const std::vector<void*>& at) {
    EXPECT_EQ(at[0], at[1]);
    EXPECT_EQ(at[2], nullptr);
    EXPECT_EQ(*Bytes(at[0]), std::byte{7});  // what is read is no poison
    *Bytes(at[1]) = std::byte{9};
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(memory[0], std::byte{9});
}

}  // namespace
}  // namespace millrace
