#include "distributed/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = sizeof(uint64_t) + 1;

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

absl::StatusOr<SocketAddress> UnixAddress(const std::string& name) {
  SocketAddress result;
  auto& address = reinterpret_cast<sockaddr_un&>(result.bytes);
  if (name.size() > sizeof(address.sun_path)) {
    return UsageError(StrCat("'", name, "' is too long a name for a socket"));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  address.sun_path[0] = '\0';  // in place of the '@': no file
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return result;
}

absl::StatusOr<SocketAddress> Resolve(const std::string& address) {
  if (address.starts_with("@")) return UnixAddress(address);
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return UsageError(StrCat("'", address, "' has no port"));
  const addrinfo hints = {.ai_flags = AI_NUMERICSERV,
                          .ai_family = AF_UNSPEC,
                          .ai_socktype = SOCK_STREAM,
                          .ai_protocol = 0,
                          .ai_addrlen = 0,
                          .ai_addr = nullptr,
                          .ai_canonname = nullptr,
                          .ai_next = nullptr};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(),
                                &hints, &found);
  if (error != 0) return UsageError(StrCat("address '", address, "': ", gai_strerror(error)));
  SocketAddress result;
  std::memcpy(&result.bytes, found->ai_addr, found->ai_addrlen);
  result.size = found->ai_addrlen;
  freeaddrinfo(found);
  return result;
}

Socket OpenSocket(const SocketAddress& address) {
  Socket made(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (made.open() && address.bytes.ss_family != AF_UNIX) {
    setsockopt(made.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return made;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<Socket> Listen(const std::string& address) {
  MILLRACE_ASSIGN_OR_RETURN(const SocketAddress place, Resolve(address));
  Socket listener = OpenSocket(place);
  const int on = 1;
  if (listener.open() && place.bytes.ss_family != AF_UNIX) {
    setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (!listener.open() ||
      bind(listener.descriptor(), reinterpret_cast<const sockaddr*>(&place.bytes), place.size) !=
          0 ||
      listen(listener.descriptor(), SOMAXCONN) != 0) {
    return UsageError(StrCat("cannot listen at ", address, ": ", std::strerror(errno)));
  }
  return listener;
}

absl::StatusOr<int> PortOf(const Socket& listener) {
  sockaddr_storage place = {};
  socklen_t size = sizeof(place);
  if (getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&place), &size) != 0) {
    return UsageError(StrCat("cannot tell the port of a socket: ", std::strerror(errno)));
  }
  if (place.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(place).sin_port);
  if (place.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(place).sin6_port);
  return InternalError("a socket without a port");
}

absl::StatusOr<Socket> Connect(const std::string& address, double timeout_s) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  MILLRACE_ASSIGN_OR_RETURN(const SocketAddress place, Resolve(address));
  int error = 0;
  do {
    Socket made = OpenSocket(place);
    if (made.open() && connect(made.descriptor(), reinterpret_cast<const sockaddr*>(&place.bytes),
                               place.size) == 0) {
      return made;
    }
    error = errno;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < give_up);
  return DistributedError(
      StrCat("rank 0 does not answer at ", address, ": ", std::strerror(error)));
}

std::string EncodeFrame(uint8_t kind, std::string_view bytes) {
  std::string frame;
  frame.reserve(kHeaderBytes + bytes.size());
  const uint64_t size = bytes.size();
  frame.append(reinterpret_cast<const char*>(&size), sizeof(size));
  frame.push_back(static_cast<char>(kind));
  frame.append(bytes);
  return frame;
}

absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& received, uint64_t max_bytes) {
  if (received.size() < kHeaderBytes) return std::nullopt;
  uint64_t size = 0;
  std::memcpy(&size, received.data(), sizeof(size));
  if (size > max_bytes) return DistributedError(StrCat("a message of ", size, " bytes"));
  if (received.size() - kHeaderBytes < size) return std::nullopt;
  Frame frame{static_cast<uint8_t>(received[sizeof(size)]), received.substr(kHeaderBytes, size)};
  received.erase(0, kHeaderBytes + size);
  return frame;
}

bool SendAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace millrace
