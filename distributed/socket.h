// Stream sockets of the job's control line: TCP, or a Unix socket without a place in the file
// system for the processes of one machine. Messages are frames: a length, a kind, bytes.
#ifndef MILLRACE_DISTRIBUTED_SOCKET_H_
#define MILLRACE_DISTRIBUTED_SOCKET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/status.h"

namespace millrace {

// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  int Release() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return descriptor;
  }

 private:
  int descriptor_ = -1;
};

// "host:port", or "@name" for a Unix socket.
absl::StatusOr<Socket> Listen(const std::string& address);
// The port that a TCP socket listens at.
absl::StatusOr<int> PortOf(const Socket& listener);
// Tries again until someone listens there. DistributedError after `timeout_s`.
absl::StatusOr<Socket> Connect(const std::string& address, double timeout_s);

struct Frame {
  uint8_t kind = 0;
  std::string bytes;
};
std::string EncodeFrame(uint8_t kind, std::string_view bytes);
// Takes the first whole frame out of `received`; nullopt: none yet. A frame of more than
// `max_bytes` is a DistributedError.
absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& received, uint64_t max_bytes);

// Blocking; false when the other side is gone.
bool SendAll(int descriptor, std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_SOCKET_H_
