// LifetimeProblem: a ScheduleProblem as the searches for low memory see it: values with users, each
// live from the first user that runs to the last. That is the same seen from the end, so whoever
// builds an order forwards builds one backwards on the reversed problem.
#ifndef MILLRACE_PASSES_SCHEDULE_LIFETIME_PROBLEM_H_
#define MILLRACE_PASSES_SCHEDULE_LIFETIME_PROBLEM_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "passes/schedule/schedule_problem.h"

namespace millrace {

// Lists of indices, one behind the other in one array.
class IndexLists {
 public:
  IndexLists() = default;
  // Puts each pair's second into the list of its first; lists keep the order of the pairs.
  IndexLists(int32_t num_lists, std::span<const std::pair<int32_t, int32_t>> pairs);

  std::span<const int32_t> operator[](int32_t list) const {
    return std::span(items_).subspan(begin_[list], begin_[list + 1] - begin_[list]);
  }
  int32_t size() const { return static_cast<int32_t>(begin_.size()) - 1; }

 private:
  std::vector<int32_t> begin_ = {0};
  std::vector<int32_t> items_;
};

struct OrderedValue {
  int64_t size_bytes = 0;
  bool from_start = false;  // live before all tasks
  bool is_kept = false;     // live after all of them
};

// Tasks are numbered in an order that is allowed.
struct LifetimeProblem {
  std::vector<int64_t> workspace_bytes;  // by task
  std::vector<OrderedValue> values;
  IndexLists values_of;      // by task: what it makes and reads
  IndexLists users_of;       // by value: tasks, ascending
  IndexLists before, after;  // by task: those that must come earlier, and later

  int32_t num_tasks() const { return static_cast<int32_t>(workspace_bytes.size()); }
  int32_t num_values() const { return static_cast<int32_t>(values.size()); }
};

LifetimeProblem LifetimesOf(const ScheduleProblem& problem);

// Task t becomes task n - 1 - t.
LifetimeProblem Reversed(const LifetimeProblem& problem);

// Where things are in an order.
struct OrderPlaces {
  std::vector<int32_t> task;         // by task: its place
  std::vector<int32_t> first, last;  // by value: the places of its first and last users
};
OrderPlaces PlacesIn(const LifetimeProblem& problem, std::span<const int32_t> order);

// The problem of ordering anew what stands at the places [begin, end) of an order, numbered as it
// stands there. Values that live through all of it and have no user there are left out.
LifetimeProblem WindowOf(const LifetimeProblem& problem, std::span<const int32_t> order,
                         const OrderPlaces& places, int32_t begin, int32_t end);

// The bytes live while each task of an order runs, by place. Values that nobody uses count
// everywhere if they are live from the start.
std::vector<int64_t> LiveBytes(const LifetimeProblem& problem, std::span<const int32_t> order);

// No order's peak is lower: what the neediest task makes and reads, with its workspace.
int64_t LowestPeakOfAnyTask(const LifetimeProblem& problem);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_LIFETIME_PROBLEM_H_
