#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "distributed/mailbox_store.h"

namespace millrace {
namespace {

// `size` bytes of the value, as a version a publisher could write.
std::vector<std::byte> Filled(size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(MailboxTest, IsZerosBeforeTheFirstVersionAndThenTheNewest) {
  auto store = MailboxStore::Create(13);  // not a multiple of a word
  ASSERT_TRUE(store.ok());
  Cancellation cancellation;
  std::vector<std::byte> taken = Filled(14, 0xEE);

  ASSERT_TRUE((*store)->TakeLatest(taken.data(), cancellation).ok());
  EXPECT_EQ(std::vector<std::byte>(taken.begin(), taken.end() - 1), Filled(13, 0));
  EXPECT_EQ(taken[13], std::byte{0xEE});

  for (int version = 1; version <= 10; ++version) {
    (*store)->Publish(Filled(13, version).data());
    EXPECT_EQ((*store)->version(), static_cast<uint64_t>(version));
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE((*store)->TakeLatest(taken.data(), cancellation).ok());
      EXPECT_EQ(std::vector<std::byte>(taken.begin(), taken.end() - 1), Filled(13, version));
    }
  }
  EXPECT_EQ(taken[13], std::byte{0xEE});
}

// Two publishers and two readers at full speed: what is read is always one version whole, and never
// older than one read before.
TEST(MailboxTest, NothingReadIsTorn) {
  constexpr size_t kWords = 513;
  constexpr uint64_t kVersions = 20000;
  auto store = MailboxStore::Create(kWords * sizeof(uint64_t));
  ASSERT_TRUE(store.ok());
  Cancellation cancellation;
  std::atomic<uint64_t> next{0};
  std::atomic<int> publishing{2};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::vector<uint64_t> words(kWords);
      for (uint64_t v = ++next; v <= kVersions; v = ++next) {
        std::fill(words.begin(), words.end(), v);
        (*store)->Publish(reinterpret_cast<const std::byte*>(words.data()));
      }
      --publishing;
    });
  }
  std::atomic<int64_t> reads{0}, torn{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::vector<uint64_t> words(kWords);
      do {
        EXPECT_TRUE(
            (*store)->TakeLatest(reinterpret_cast<std::byte*>(words.data()), cancellation).ok());
        for (uint64_t word : words) torn += word != words[0];
        ++reads;
      } while (publishing > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(torn, 0);
  EXPECT_GT(reads, 0);
  EXPECT_EQ((*store)->version(), kVersions);
}

TEST(MailboxTest, RefusesSizesThatCannotBe) {
  EXPECT_EQ(MailboxStore::Create(-1).status().code(), UsageError("").code());
  EXPECT_EQ(MailboxStore::Create(int64_t{1} << 47).status().code(), OutOfMemoryError("").code());
  EXPECT_TRUE(MailboxStore::Create(0).ok());
}

}  // namespace
}  // namespace millrace
