// Endpoints in messages, and whether the two ends of a channel fit.
#ifndef MILLRACE_DISTRIBUTED_ENDPOINT_TEXT_H_
#define MILLRACE_DISTRIBUTED_ENDPOINT_TEXT_H_

#include <span>
#include <string>

#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// "program 1 at (0,3)"
std::string ToText(const Endpoint& endpoint);

// DistributedError unless both ends list as many transfers, each of one size.
absl::Status CheckTransfers(const Endpoint& sender, std::span<const Transfer> sends,
                            const Endpoint& receiver, std::span<const Transfer> recvs,
                            Channel channel);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_ENDPOINT_TEXT_H_
