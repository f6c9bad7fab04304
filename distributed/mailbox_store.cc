// A ring of sequence-locked slots. Version v is written to slot v mod 3 while readers read version
// v - 1 from another, so a reader starts over only when two newer versions were begun while it
// copied one.
//
// The words are atomics: a reader may copy words that are being overwritten, sees by the sequence
// number that they are torn, and drops them. Words are stored with release and loaded with acquire
// (plain moves on x86), which keeps the sequence's odd store before the words and its second load
// after them without a fence: a reader that sees a word of version v + 3 sees its odd sequence too.
#include "distributed/mailbox_store.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "graph/strings.h"
#include "graph/types.h"

namespace millrace {

constexpr int kMailboxSlots = 3;

// At the start of the memory; the slots' words follow, each slot's on cache lines of its own.
struct alignas(64) MailboxStore::Header {
  pthread_mutex_t publishers;  // robust: who dies with it leaves a slot half written, no more
  std::atomic<uint64_t> version{0};
  // By slot. 2v: holds version v; 2v - 1: v is being written.
  std::array<std::atomic<uint64_t>, kMailboxSlots> sequences{};
};

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

int64_t SlotBytes(int64_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

absl::StatusOr<Buffer> AllocateMailbox(int64_t size_bytes) {
  void* data = std::aligned_alloc(64, static_cast<size_t>(size_bytes));
  if (data == nullptr) return OutOfMemoryError(StrCat("no memory for ", size_bytes, " bytes"));
  std::memset(data, 0, static_cast<size_t>(size_bytes));
  return Buffer(data, size_bytes, MemorySpace::kHost, [](void* data, int64_t) { std::free(data); });
}

void MakeRobust(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MailboxStore>> MailboxStore::Create(int64_t size_bytes,
                                                                   const Allocate& allocate) {
  if (size_bytes < 0 || size_bytes > kMaxBytes / 4) {
    return size_bytes < 0
               ? UsageError(StrCat("a mailbox of ", size_bytes, " bytes"))
               : OutOfMemoryError(StrCat("no memory for ", kMailboxSlots,
                                         " copies of a mailbox of ", size_bytes, " bytes"));
  }
  const int64_t all = static_cast<int64_t>(sizeof(Header)) + kMailboxSlots * SlotBytes(size_bytes);
  absl::StatusOr<Buffer> buffer = allocate ? allocate(all) : AllocateMailbox(all);
  if (!buffer.ok()) {
    return Annotate(buffer.status(),
                    StrCat(kMailboxSlots, " copies of a mailbox of ", size_bytes, " bytes"));
  }
  new (buffer->data()) Header();
  auto store = std::unique_ptr<MailboxStore>(new MailboxStore(buffer->data(), size_bytes));
  MakeRobust(store->header().publishers);
  store->buffer_ = *std::move(buffer);
  return store;
}

std::unique_ptr<MailboxStore> MailboxStore::Open(std::byte* memory, int64_t size_bytes) {
  return std::unique_ptr<MailboxStore>(new MailboxStore(memory, size_bytes));
}

MailboxStore::Header& MailboxStore::header() const { return *reinterpret_cast<Header*>(memory_); }

std::atomic<uint64_t>* MailboxStore::Words(uint64_t version) const {
  const auto slot = static_cast<int64_t>(version % kMailboxSlots);
  return reinterpret_cast<std::atomic<uint64_t>*>(memory_ + sizeof(Header) +
                                                  slot * SlotBytes(size_bytes_));
}

uint64_t MailboxStore::version() const { return header().version.load(std::memory_order_acquire); }

void MailboxStore::Publish(const std::byte* from) {
  Header& shared = header();
  if (pthread_mutex_lock(&shared.publishers) == EOWNERDEAD) {
    pthread_mutex_consistent(&shared.publishers);
  }
  const uint64_t version = shared.version.load(std::memory_order_relaxed) + 1;
  std::atomic<uint64_t>& sequence = shared.sequences[version % kMailboxSlots];
  std::atomic<uint64_t>* words = Words(version);
  sequence.store(2 * version - 1, std::memory_order_relaxed);
  ForEachWord(size_bytes_, [&](int64_t i, int64_t offset, int64_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from + offset, static_cast<size_t>(bytes));
    words[i].store(word, std::memory_order_release);
  });
  sequence.store(2 * version, std::memory_order_release);
  shared.version.store(version, std::memory_order_release);
  pthread_mutex_unlock(&shared.publishers);
}

absl::Status MailboxStore::TakeLatest(std::byte* to, const Cancellation& cancellation) const {
  Header& shared = header();
  do {
    const uint64_t version = shared.version.load(std::memory_order_acquire);
    if (version == 0) {
      if (size_bytes_ > 0) std::memset(to, 0, static_cast<size_t>(size_bytes_));
      return absl::OkStatus();
    }
    const std::atomic<uint64_t>& sequence = shared.sequences[version % kMailboxSlots];
    if (sequence.load(std::memory_order_acquire) != 2 * version) continue;
    const std::atomic<uint64_t>* words = Words(version);
    ForEachWord(size_bytes_, [&](int64_t i, int64_t offset, int64_t bytes) {
      const uint64_t word = words[i].load(std::memory_order_acquire);
      std::memcpy(to + offset, &word, static_cast<size_t>(bytes));
    });
    if (sequence.load(std::memory_order_relaxed) == 2 * version) return absl::OkStatus();
  } while (!cancellation.requested());
  return absl::CancelledError("the run was cancelled");
}

}  // namespace millrace
