// The bytes of one mailbox, in memory that all its users share, be they threads or processes.
#ifndef MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_
#define MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "graph/status.h"
#include "runtime/device.h"

namespace millrace {

class MailboxStore {
 public:
  // Gives memory for it: zeros, aligned to a cache line.
  using Allocate = std::function<absl::StatusOr<Buffer>(int64_t size_bytes)>;
  // `allocate` null: memory of this process.
  static absl::StatusOr<std::unique_ptr<MailboxStore>> Create(int64_t size_bytes,
                                                              const Allocate& allocate = nullptr);
  // That of another process, as it lies here; the memory outlives it.
  static std::unique_ptr<MailboxStore> Open(std::byte* memory, int64_t size_bytes);

  std::byte* memory() const { return memory_; }
  int64_t size_bytes() const { return size_bytes_; }
  // Of the newest version; 0 before the first Publish.
  uint64_t version() const;

  // `from` becomes the newest version. Readers do not delay it; publishers wait for each other, but
  // not for one that died.
  void Publish(const std::byte* from);
  // A whole version, the newest when the call began or a later one; zeros before the first. Never
  // delays a publisher. absl::CancelledError when cancelled before it got one.
  absl::Status TakeLatest(std::byte* to, const Cancellation& cancellation) const;

 private:
  struct Header;
  MailboxStore(std::byte* memory, int64_t size_bytes) : memory_(memory), size_bytes_(size_bytes) {}

  Header& header() const;
  std::atomic<uint64_t>* Words(uint64_t version) const;  // of its slot

  Buffer buffer_;  // empty: another's
  std::byte* const memory_;
  const int64_t size_bytes_;
};

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_MAILBOX_STORE_H_
