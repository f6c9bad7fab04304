#include "distributed/endpoint_text.h"

#include "absl/strings/str_join.h"
#include "graph/strings.h"

namespace millrace {

std::string ToText(const Endpoint& endpoint) {
  return StrCat("program ", endpoint.program, " at (", absl::StrJoin(endpoint.coordinates, ","),
                ")");
}

absl::Status CheckTransfers(const Endpoint& sender, std::span<const Transfer> sends,
                            const Endpoint& receiver, std::span<const Transfer> recvs,
                            Channel channel) {
  const std::string where =
      StrCat("channel ", channel.id, " from ", ToText(sender), " to ", ToText(receiver), ": ");
  if (sends.size() != recvs.size()) {
    return DistributedError(StrCat(where, sends.size(), " sends and ", recvs.size(),
                                   " receives in one ", SectionName(channel.section)));
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i].size_bytes == recvs[i].size_bytes) continue;
    return DistributedError(StrCat(where, "transfer ", i, " sends ", sends[i].size_bytes,
                                   " bytes and receives ", recvs[i].size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace millrace
