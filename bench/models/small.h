// Small models of the common kinds, a few milliseconds a step on a core: large enough that kernels
// matter, small enough to measure often. Inferred; weights are seeded.
#ifndef MILLRACE_BENCH_MODELS_SMALL_H_
#define MILLRACE_BENCH_MODELS_SMALL_H_

#include <cstdint>

#include "graph/graph.h"

namespace millrace {

// 784 -> 1024 -> 1024 -> 10, with Relu and Softmax.
Graph SmallMlpGraph(int64_t batch);

// 3x32x32 images, five convolutions up to 64 channels, pooling, ten classes.
Graph SmallCnnGraph(int64_t batch);

// `layers` encoder layers over [tokens, width] with `heads` heads, pre-normalized, Gelu of 4x
// width.
Graph SmallTransformerGraph(int64_t layers, int64_t tokens, int64_t width, int64_t heads);

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_SMALL_H_
