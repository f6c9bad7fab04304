// On how many streams of a device a graph runs fastest, by the cost model.
#ifndef MILLRACE_PASSES_SCHEDULE_CHOOSE_STREAMS_H_
#define MILLRACE_PASSES_SCHEDULE_CHOOSE_STREAMS_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/machine.h"
#include "graph/status.h"
#include "graph/target.h"
#include "passes/cost_model.h"
#include "passes/schedule/schedule_problem.h"
#include "passes/schedule/stream_plan.h"

namespace millrace {

struct ChooseStreamsOptions {
  int32_t max_streams = 1;
  int threads = 1;                // cpu: divided evenly among the streams' teams
  KnownCosts known = {};          // measured ones
  int64_t max_work = 20'000'000;  // steps of about a nanosecond for each number of streams
};

struct StreamChoice {
  StreamPlan plan;
  int threads = 1;           // of each stream's team
  double one_stream_us = 0;  // what one stream would take
};

// What using several streams costs on a device. Machines are described without a rate for events:
// one is taken to cost as much as launching a kernel. A cuda device's host issues ahead of it, so
// that a launch holds up nobody unless it comes late; on a cpu device it is part of the task.
StreamCosts StreamCostsOf(const DeviceSpec& device);

// Sets the tasks' times and uses to those of the kernels that the emitter takes, run by teams of
// `threads`. Of a node with bodies: all tasks of the costlier one, as often as is known. Nodes
// without a kernel, and those on a device without the rates they need, take no time.
void SetTaskCosts(const Graph& graph, const Target& target, const DeviceSpec& device, int threads,
                  const KnownCosts& known, ScheduleProblem& problem);

// Tries each number of streams up to the most allowed and takes the one whose tasks, sharing the
// device, end first: fewer streams where more gain less than a hundredth. On a cpu device more
// streams are smaller teams, and so slower tasks. `problem` is the graph's.
StreamChoice ChooseStreams(const Graph& graph, const Target& target, const DeviceSpec& device,
                           const ChooseStreamsOptions& options, ScheduleProblem problem);

// A graph whose nodes are in the order in which they are issued.
struct SpreadGraph {
  std::vector<int32_t> stream_of_node;
  int32_t num_streams = 1;
  int threads = 1;           // of each stream's team
  double one_stream_us = 0;  // what one stream would take
  double streams_us = 0;     // what these take
};

// ChooseStreams for a graph, done: puts its nodes in that order.
absl::StatusOr<SpreadGraph> SpreadOverStreams(Graph& graph, const Target& target,
                                              const DeviceSpec& device,
                                              const ChooseStreamsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_CHOOSE_STREAMS_H_
