// ScheduleProblem: what schedulers need to know of a graph, as plain data: tasks that take time and
// memory, and what must come before what. An order is a list of all tasks, as they run.
//
// A result lives from its producer to the last of its readers, both included; one that is kept
// lives on. Nothing is known of views and of results written over inputs: the memory planner saves
// on top of what an order gives.
#ifndef MILLRACE_PASSES_SCHEDULE_SCHEDULE_PROBLEM_H_
#define MILLRACE_PASSES_SCHEDULE_SCHEDULE_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

struct ScheduleTask {
  double time_us = 0;           // while nothing else runs on the device
  float compute_use = 0;        // of the device's arithmetic meanwhile, 0 to 1
  float memory_use = 0;         // and of its memory's bandwidth
  int64_t workspace_bytes = 0;  // live while the task runs
};

struct ScheduleResult {
  int64_t size_bytes = 0;
  int32_t producer = -1;              // -1: there from the start
  std::vector<int32_t> readers = {};  // ascending, each once, all after the producer
  bool is_kept = false;
};

struct TaskEdge {
  int32_t before = 0, after = 0;
  bool operator==(const TaskEdge&) const = default;
};

// Tasks are numbered in an order that is allowed, which is the one to improve on: all readers and
// edges lead from a lower to a higher number.
struct ScheduleProblem {
  std::vector<ScheduleTask> tasks;
  std::vector<ScheduleResult> results;
  std::vector<TaskEdge> edges;  // beyond those from producers to readers
};

// Which graph it is: the outermost one, the body of an If, whose outputs lie on the bytes of the
// node's, or a loop's.
enum class BodyPlace : uint8_t { kNone, kBranch, kTrip };
BodyPlace PlaceOfBodies(const Node& node);

// One task per node, times left at zero. Nodes with effects, and those that talk to other devices,
// keep their order; params and constants, which never go, are left out, and so is what a body is
// given, which lies outside of it. A node with bodies has the most that any of them needs, in the
// order they are in, as workspace. InfeasibleError when all results together exceed 2^60 bytes.
absl::StatusOr<ScheduleProblem> ScheduleProblemOf(const Graph& graph,
                                                  BodyPlace place = BodyPlace::kNone);

// An InternalError that says what is wrong: an index out of range, readers out of order, an edge
// that leads back, a negative size or time.
absl::Status VerifyScheduleProblem(const ScheduleProblem& problem);

// Whether `order` has every task once, each after all that must come before it.
bool IsOrder(const ScheduleProblem& problem, std::span<const int32_t> order);

// The most bytes live at once.
int64_t PeakBytes(const ScheduleProblem& problem, std::span<const int32_t> order);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_SCHEDULE_PROBLEM_H_
