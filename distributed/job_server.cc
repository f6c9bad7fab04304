// One thread, one poll loop, no blocking writes: a rank that is stopped delays nobody.
//
// Whose fault is it? Ranks that wait say for whom (pulses), and ranks whose contribution to a
// gathering lies here wait for those whose is missing. Following these edges from a rank that has
// waited too long ends at one that waits for nobody, or is not heard of any more, or has been met
// before. If that one has got nowhere for the timeout either, it is the culprit; in a circle all
// are.
#include "distributed/job_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "graph/strings.h"
#include "runtime/wire.h"

namespace millrace {
namespace {

constexpr int kTickMs = 50;
constexpr size_t kFlushBytes = 1 << 20;  // to one rank before the others' turn
constexpr double kSilentS = 1;           // without a pulse: not heard of any more

double ServerNowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Connection {
  Socket socket;
  std::string received = {}, unsent = {};
  int rank = -1;  // until it has said hello
};

// What is known of a rank.
struct RankState {
  Connection* connection = nullptr;  // null: not there
  bool joined = false, left = false;
  std::deque<std::string> brought;  // to gatherings to come
  double brought_s = 0;             // when the first of them came
  uint64_t progress = 0;
  int32_t waits_for = -1;
  double stalled_s = 0, heard_s = 0;
  std::string where;
};

class PollingServer : public JobServer {
 public:
  PollingServer(Socket listener, int size, double timeout_s)
      : listener_(std::move(listener)), timeout_s_(timeout_s), ranks_(size) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~PollingServer() override {
    closing_s_ = ServerNowS();
    closing_ = true;
    thread_.join();
  }

 private:
  void Serve() {
    const double start_s = ServerNowS();
    while (!IsDone()) {
      Poll();
      const double now_s = ServerNowS();
      if (!ended_ && now_s - start_s > timeout_s_) CheckAllJoined();
      if (!ended_) CheckStuck(now_s);
    }
  }

  bool IsDone() const {
    if (!closing_) return false;
    const bool overdue = ServerNowS() - closing_s_ > kGraceS;
    return overdue || std::ranges::all_of(
                          ranks_, [](const RankState& rank) { return rank.connection == nullptr; });
  }

  void Poll() {
    std::vector<pollfd> polled = {{listener_.descriptor(), POLLIN, 0}};
    std::vector<Connection*> whose = {nullptr};
    for (Connection& connection : connections_) {
      const bool writes = !connection.unsent.empty();
      polled.push_back({connection.socket.descriptor(),
                        static_cast<int16_t>(writes ? POLLIN | POLLOUT : POLLIN), 0});
      whose.push_back(&connection);
    }
    if (poll(polled.data(), polled.size(), kTickMs) <= 0) return;
    if (polled[0].revents != 0) Accept();
    for (size_t i = 1; i < polled.size(); ++i) {
      bool alive = true;
      if ((polled[i].revents & POLLOUT) != 0) alive = Flush(*whose[i]);
      if (alive && (polled[i].revents & ~POLLOUT) != 0) alive = Receive(*whose[i]);
      if (!alive) Drop(*whose[i]);
    }
  }

  void Accept() {
    Socket socket(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.open()) connections_.push_back({.socket = std::move(socket)});
  }

  bool Flush(Connection& connection) {
    size_t done = 0;  // at most kFlushBytes: others wait to hear something too
    bool alive = true;
    while (done < std::min(connection.unsent.size(), kFlushBytes)) {
      const ssize_t sent = send(connection.socket.descriptor(), connection.unsent.data() + done,
                                connection.unsent.size() - done, MSG_NOSIGNAL);
      if (sent < 0) {
        alive = errno == EAGAIN || errno == EINTR;
        break;
      }
      done += static_cast<size_t>(sent);
    }
    connection.unsent.erase(0, done);
    return alive;
  }

  bool Receive(Connection& connection) {
    char buffer[1 << 16];
    const ssize_t got = recv(connection.socket.descriptor(), buffer, sizeof(buffer), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.received.append(buffer, static_cast<size_t>(got));
    while (true) {
      absl::StatusOr<std::optional<Frame>> frame =
          TakeFrame(connection.received, connection.rank < 0 ? 64 : kMaxJobMessageBytes);
      if (!frame.ok()) return false;
      if (!frame->has_value()) return true;
      if (!Handle(connection, **frame)) return false;
    }
  }

  // False: the connection is of no use any more.
  bool Handle(Connection& connection, Frame& frame) {
    const auto kind = static_cast<JobMessage>(frame.kind);
    if (connection.rank < 0) return kind == JobMessage::kHello && Greet(connection, frame.bytes);
    RankState& rank = ranks_[connection.rank];
    rank.heard_s = ServerNowS();
    switch (kind) {
      case JobMessage::kGather:
        if (rank.brought.empty()) rank.brought_s = rank.heard_s;
        rank.brought.push_back(std::move(frame.bytes));
        FinishGathering();
        return true;
      case JobMessage::kPulse: {
        WireReader reader(frame.bytes);
        rank.progress = reader.Get<uint64_t>();
        rank.waits_for = reader.Get<int32_t>();
        rank.stalled_s = reader.Get<double>();
        rank.where = reader.GetString();
        Answer(connection, JobMessage::kEcho, "");
        return reader.ok();
      }
      case JobMessage::kFail:
        End(StrCat("rank ", connection.rank, ": ", frame.bytes));
        return true;
      case JobMessage::kBye:
        rank.left = true;
        return true;
      default:
        return false;
    }
  }

  bool Greet(Connection& connection, const std::string& bytes) {
    WireReader reader(bytes);
    const auto rank = reader.Get<int32_t>();
    const auto size = reader.Get<int32_t>();
    if (!reader.ok()) return false;
    const int32_t ranks = static_cast<int32_t>(ranks_.size());
    if (size != ranks || rank < 0 || rank >= ranks || ranks_[rank].joined) {
      Answer(connection, JobMessage::kEnd,
             size != ranks ? StrCat("rank ", rank, " was told that there are ", size,
                                    " ranks, rank 0 that there are ", ranks)
                           : StrCat("there is a rank ", rank, " already"));
      return true;
    }
    connection.rank = rank;
    ranks_[rank].connection = &connection;
    ranks_[rank].joined = true;
    ranks_[rank].heard_s = ServerNowS();
    if (ended_) Answer(connection, JobMessage::kEnd, why_);
    return true;
  }

  void Drop(Connection& connection) {
    const int rank = connection.rank;
    connections_.remove_if([&](const Connection& each) { return &each == &connection; });
    if (rank < 0) return;
    ranks_[rank].connection = nullptr;
    if (!ranks_[rank].left) End(StrCat("rank ", rank, " died", Doing(rank)));
  }

  std::string Doing(int rank) const {
    const std::string& where = ranks_[rank].where;
    return where.empty() ? "" : StrCat("; it was at: ", where);
  }

  void FinishGathering() {
    if (std::ranges::any_of(ranks_, [](const RankState& r) { return r.brought.empty(); })) return;
    WireWriter all;
    for (RankState& rank : ranks_) {
      all.PutString(rank.brought.front());
      rank.brought.pop_front();
      rank.brought_s = ServerNowS();
    }
    const std::string bytes = std::move(all).Take();
    for (RankState& rank : ranks_) {
      if (rank.connection != nullptr) Answer(*rank.connection, JobMessage::kGathered, bytes);
    }
  }

  // Not dropped here when it is gone: the next poll finds that out.
  void Answer(Connection& connection, JobMessage kind, std::string_view bytes) {
    connection.unsent += EncodeFrame(static_cast<uint8_t>(kind), bytes);
    Flush(connection);
  }

  void End(const std::string& why) {
    if (ended_) return;
    ended_ = true;
    why_ = why;
    for (Connection& connection : connections_) Answer(connection, JobMessage::kEnd, why_);
  }

  void CheckAllJoined() {
    std::string missing;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].joined) StrAppend(&missing, missing.empty() ? "" : ", ", rank);
    }
    if (missing.empty()) return;
    End(StrCat("rank ", missing, " did not join within ", timeout_s_, " s"));
  }

  // For whom a rank waits, or -1.
  int WaitsFor(int rank) const {
    const RankState& state = ranks_[rank];
    if (state.waits_for >= 0 && state.waits_for < static_cast<int>(ranks_.size())) {
      return state.waits_for;
    }
    if (state.brought.empty()) return -1;
    for (size_t other = 0; other < ranks_.size(); ++other) {
      if (ranks_[other].brought.empty()) return static_cast<int>(other);
    }
    return -1;
  }

  double StalledS(int rank, double now_s) const {
    const RankState& state = ranks_[rank];
    const double silent_s = now_s - state.heard_s;
    return silent_s > kSilentS ? silent_s + state.stalled_s : state.stalled_s;
  }

  void CheckStuck(double now_s) {
    for (size_t waiter = 0; waiter < ranks_.size(); ++waiter) {
      const RankState& state = ranks_[waiter];
      const bool silent = now_s - state.heard_s > kSilentS;
      if (!state.joined || state.left || silent || WaitsFor(waiter) < 0) continue;
      const double waited_s =
          state.waits_for >= 0 ? StalledS(waiter, now_s) : now_s - state.brought_s;
      if (waited_s > timeout_s_) Accuse(static_cast<int>(waiter), now_s);
      if (ended_) return;
    }
  }

  void Accuse(int waiter, double now_s) {
    std::vector<bool> met(ranks_.size());
    int at = waiter;
    while (!met[at]) {
      met[at] = true;
      const bool silent = now_s - ranks_[at].heard_s > kSilentS;
      const int next = silent ? -1 : WaitsFor(at);
      if (next < 0) break;
      at = next;
    }
    const bool silent = now_s - ranks_[at].heard_s > kSilentS;
    const bool circle = !silent && WaitsFor(at) >= 0;
    if (!circle && StalledS(at, now_s) <= timeout_s_) return;  // it gets on, if slowly
    const std::string what = circle   ? "ranks wait for each other: rank "
                             : silent ? "not heard of any more: rank "
                                      : "stuck: rank ";
    const std::string doing =
        ranks_[waiter].where.empty() ? "" : StrCat(", at: ", ranks_[waiter].where);
    End(StrCat(what, at, Doing(at), "; rank ", waiter, " has waited for it for ", timeout_s_, " s",
               doing));
  }

  const Socket listener_;
  const double timeout_s_;
  std::list<Connection> connections_;
  std::vector<RankState> ranks_;
  bool ended_ = false;
  std::string why_;
  std::atomic<bool> closing_{false};
  std::atomic<double> closing_s_{0};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<JobServer> JobServer::Start(Socket listener, int size, double timeout_s) {
  return std::make_unique<PollingServer>(std::move(listener), size, timeout_s);
}

}  // namespace millrace
