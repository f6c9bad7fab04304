// A ring of sequence-locked slots. Version v is written to slot v mod 3 while readers read version
// v - 1 from another, so a reader starts over only when two newer versions were begun while it
// copied one.
//
// The words are atomics: a reader may copy words that are being overwritten, sees by the sequence
// number that they are torn, and drops them. Words are stored with release and loaded with acquire
// (plain moves on x86), which keeps the sequence's odd store before the words and its second load
// after them without a fence: a reader that sees a word of version v + 3 sees its odd sequence too.
#include "distributed/mailbox_store.h"

#include <cstring>
#include <new>

#include "graph/strings.h"
#include "graph/types.h"

namespace millrace {
namespace {

constexpr int64_t kWordBytes = sizeof(uint64_t);

// Calls visit(word, offset, bytes) for each word of `size_bytes` bytes; the last may be shorter.
template <typename Visit>
void ForEachWord(int64_t size_bytes, Visit&& visit) {
  const int64_t whole = size_bytes / kWordBytes;
  for (int64_t i = 0; i < whole; ++i) visit(i, i * kWordBytes, kWordBytes);
  if (const int64_t rest = size_bytes % kWordBytes; rest != 0) {
    visit(whole, whole * kWordBytes, rest);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MailboxStore>> MailboxStore::Create(int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > kMaxBytes) {
    return UsageError(StrCat("a mailbox of ", size_bytes, " bytes"));
  }
  auto store = std::unique_ptr<MailboxStore>(new MailboxStore(size_bytes));
  const auto words = static_cast<size_t>((size_bytes + kWordBytes - 1) / kWordBytes);
  for (Slot& slot : store->slots_) {
    slot.words.reset(new (std::nothrow) std::atomic<uint64_t>[words]());
    if (slot.words == nullptr) {
      return OutOfMemoryError(
          StrCat("no memory for ", kSlots, " copies of a mailbox of ", size_bytes, " bytes"));
    }
  }
  return store;
}

void MailboxStore::Publish(const std::byte* from) {
  const std::lock_guard lock(publishers_);
  const uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  Slot& slot = slots_[version % kSlots];
  slot.sequence.store(2 * version - 1, std::memory_order_relaxed);
  ForEachWord(size_bytes_, [&](int64_t i, int64_t offset, int64_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from + offset, static_cast<size_t>(bytes));
    slot.words[i].store(word, std::memory_order_release);
  });
  slot.sequence.store(2 * version, std::memory_order_release);
  version_.store(version, std::memory_order_release);
}

absl::Status MailboxStore::TakeLatest(std::byte* to, const Cancellation& cancellation) const {
  do {
    const uint64_t version = version_.load(std::memory_order_acquire);
    if (version == 0) {
      if (size_bytes_ > 0) std::memset(to, 0, static_cast<size_t>(size_bytes_));
      return absl::OkStatus();
    }
    const Slot& slot = slots_[version % kSlots];
    if (slot.sequence.load(std::memory_order_acquire) != 2 * version) continue;
    ForEachWord(size_bytes_, [&](int64_t i, int64_t offset, int64_t bytes) {
      const uint64_t word = slot.words[i].load(std::memory_order_acquire);
      std::memcpy(to + offset, &word, static_cast<size_t>(bytes));
    });
    if (slot.sequence.load(std::memory_order_relaxed) == 2 * version) return absl::OkStatus();
  } while (!cancellation.requested());
  return absl::CancelledError("the run was cancelled");
}

}  // namespace millrace
