// Channels-last places (Layout::kNHWC): a value [N, C, spatial...] whose channels lie side by side.
#ifndef MILLRACE_GRAPH_CHANNELS_LAST_H_
#define MILLRACE_GRAPH_CHANNELS_LAST_H_

#include <cstdint>
#include <vector>

#include "graph/types.h"

namespace millrace {

// Rank 4 or 5, where it makes a difference: there are channels, and positions.
bool HasChannelsLast(const Shape& shape);

// Elements, one per dim, for rank 4 or 5: {H W C, 1, W C, C}.
std::vector<int64_t> ChannelsLastStrides(const Shape& shape);

// The dims in the order in which they lie: [N, spatial..., C]. Of rank 4 or 5.
Shape ChannelsLastShape(const Shape& shape);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHANNELS_LAST_H_
