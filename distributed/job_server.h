// The server of a job's control line, a thread of rank 0: gathers what ranks bring, and decides
// when the job has failed and whose fault it is.
#ifndef MILLRACE_DISTRIBUTED_JOB_SERVER_H_
#define MILLRACE_DISTRIBUTED_JOB_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "distributed/socket.h"
#include "graph/status.h"

namespace millrace {

// Frames of the line.
enum class JobMessage : uint8_t {
  // To the server.
  kHello = 1,  // rank, size
  kGather,     // bytes
  kPulse,      // progress, waits_for, stalled seconds, where
  kFail,       // why
  kBye,
  // From it.
  kGathered,  // a string a rank
  kEnd,       // why
  kEcho,      // to each pulse
};
inline constexpr uint64_t kMaxJobMessageBytes = uint64_t{1} << 36;
inline constexpr double kPulseS = 0.1;
// A failed job's processes have so long to wind up.
inline constexpr double kGraceS = 2;

class JobServer {
 public:
  static std::unique_ptr<JobServer> Start(Socket listener, int size, double timeout_s);
  virtual ~JobServer() = default;  // waits for all to leave, at most kGraceS
};

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_JOB_SERVER_H_
