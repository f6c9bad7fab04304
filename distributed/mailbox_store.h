// The bytes of one mailbox, in memory that all its users share.
#ifndef MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_
#define MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

class MailboxStore {
 public:
  static absl::StatusOr<std::unique_ptr<MailboxStore>> Create(int64_t size_bytes);

  int64_t size_bytes() const { return size_bytes_; }
  // Of the newest version; 0 before the first Publish.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // `from` becomes the newest version. Readers do not delay it; publishers wait for each other.
  void Publish(const std::byte* from);
  // A whole version, the newest when the call began or a later one; zeros before the first. Never
  // delays a publisher. absl::CancelledError when cancelled before it got one.
  absl::Status TakeLatest(std::byte* to, const Cancellation& cancellation) const;

 private:
  struct Slot {
    std::atomic<uint64_t> sequence{0};  // 2v: holds version v; 2v - 1: v is being written
    std::unique_ptr<std::atomic<uint64_t>[]> words;
  };
  static constexpr int kSlots = 3;

  explicit MailboxStore(int64_t size_bytes) : size_bytes_(size_bytes) {}

  const int64_t size_bytes_;
  std::mutex publishers_;
  std::atomic<uint64_t> version_{0};
  std::array<Slot, kSlots> slots_;
};

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_
