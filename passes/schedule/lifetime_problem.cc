#include "passes/schedule/lifetime_problem.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"

namespace millrace {
namespace {

using Pairs = std::vector<std::pair<int32_t, int32_t>>;

Pairs Flipped(const Pairs& pairs) {
  Pairs flipped;
  flipped.reserve(pairs.size());
  for (const auto& [first, second] : pairs) flipped.push_back({second, first});
  return flipped;
}

// From (task, value) pairs and (before, after) pairs, both ascending in the task.
void SetLists(const Pairs& uses, const Pairs& before_of, LifetimeProblem& problem) {
  problem.values_of = IndexLists(problem.num_tasks(), uses);
  problem.users_of = IndexLists(problem.num_values(), Flipped(uses));
  problem.before = IndexLists(problem.num_tasks(), before_of);
  problem.after = IndexLists(problem.num_tasks(), Flipped(before_of));
}

}  // namespace

IndexLists::IndexLists(int32_t num_lists, std::span<const std::pair<int32_t, int32_t>> pairs)
    : begin_(num_lists + 1, 0), items_(pairs.size()) {
  for (const auto& [list, item] : pairs) ++begin_[list + 1];
  for (int32_t i = 0; i < num_lists; ++i) begin_[i + 1] += begin_[i];
  std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [list, item] : pairs) items_[next[list]++] = item;
}

LifetimeProblem LifetimesOf(const ScheduleProblem& problem) {
  LifetimeProblem result;
  for (const ScheduleTask& task : problem.tasks) {
    result.workspace_bytes.push_back(task.workspace_bytes);
  }
  Pairs users, after_of;
  for (const ScheduleResult& r : problem.results) {
    const int32_t value = result.num_values();
    result.values.push_back({r.size_bytes, r.producer < 0, r.is_kept});
    if (r.producer >= 0) users.push_back({value, r.producer});
    for (const int32_t reader : r.readers) {
      users.push_back({value, reader});
      if (r.producer >= 0) after_of.push_back({r.producer, reader});
    }
  }
  for (const TaskEdge& edge : problem.edges) after_of.push_back({edge.before, edge.after});
  result.users_of = IndexLists(result.num_values(), users);
  result.values_of = IndexLists(result.num_tasks(), Flipped(users));
  result.after = IndexLists(result.num_tasks(), after_of);
  result.before = IndexLists(result.num_tasks(), Flipped(after_of));
  return result;
}

LifetimeProblem Reversed(const LifetimeProblem& problem) {
  LifetimeProblem result;
  const int32_t last = problem.num_tasks() - 1;
  result.workspace_bytes.assign(problem.workspace_bytes.rbegin(), problem.workspace_bytes.rend());
  for (const OrderedValue& v : problem.values) {
    result.values.push_back({v.size_bytes, v.is_kept, v.from_start});
  }
  Pairs uses, before_of;
  for (int32_t task = last; task >= 0; --task) {
    for (const int32_t v : problem.values_of[task]) uses.push_back({last - task, v});
    for (const int32_t after : problem.after[task])
      before_of.push_back({last - task, last - after});
  }
  SetLists(uses, before_of, result);
  return result;
}

OrderPlaces PlacesIn(const LifetimeProblem& problem, std::span<const int32_t> order) {
  OrderPlaces places;
  places.task.resize(problem.num_tasks());
  places.first.assign(problem.num_values(), std::numeric_limits<int32_t>::max());
  places.last.assign(problem.num_values(), -1);
  for (int32_t place = 0; place < std::ssize(order); ++place) {
    places.task[order[place]] = place;
    for (const int32_t v : problem.values_of[order[place]]) {
      places.first[v] = std::min(places.first[v], place);
      places.last[v] = place;
    }
  }
  return places;
}

LifetimeProblem WindowOf(const LifetimeProblem& problem, std::span<const int32_t> order,
                         const OrderPlaces& places, int32_t begin, int32_t end) {
  LifetimeProblem window;
  absl::flat_hash_map<int32_t, int32_t> local;  // values
  Pairs uses, before_of;
  for (int32_t place = begin; place < end; ++place) {
    const int32_t task = order[place];
    window.workspace_bytes.push_back(problem.workspace_bytes[task]);
    for (const int32_t v : problem.values_of[task]) {
      const auto [it, is_new] = local.try_emplace(v, window.num_values());
      if (is_new) {
        const OrderedValue& whole = problem.values[v];
        window.values.push_back({whole.size_bytes, whole.from_start || places.first[v] < begin,
                                 whole.is_kept || places.last[v] >= end});
      }
      uses.push_back({place - begin, it->second});
    }
    for (const int32_t before : problem.before[task]) {
      const int32_t at = places.task[before];
      if (at >= begin) before_of.push_back({place - begin, at - begin});
    }
  }
  SetLists(uses, before_of, window);
  return window;
}

std::vector<int64_t> LiveBytes(const LifetimeProblem& problem, std::span<const int32_t> order) {
  std::vector<int32_t> to_come(problem.num_values());
  int64_t live = 0;
  for (int32_t v = 0; v < problem.num_values(); ++v) {
    to_come[v] = static_cast<int32_t>(problem.users_of[v].size());
    if (problem.values[v].from_start) live += problem.values[v].size_bytes;
  }
  std::vector<int64_t> bytes;
  bytes.reserve(order.size());
  for (const int32_t task : order) {
    int64_t closed = 0;
    for (const int32_t v : problem.values_of[task]) {
      const OrderedValue& value = problem.values[v];
      const bool is_first = to_come[v] == static_cast<int32_t>(problem.users_of[v].size());
      if (is_first && !value.from_start) live += value.size_bytes;
      if (--to_come[v] == 0 && !value.is_kept) closed += value.size_bytes;
    }
    bytes.push_back(live + problem.workspace_bytes[task]);
    live -= closed;
  }
  return bytes;
}

int64_t LowestPeakOfAnyTask(const LifetimeProblem& problem) {
  int64_t lowest = 0, always = 0;
  for (int32_t v = 0; v < problem.num_values(); ++v) {
    const OrderedValue& value = problem.values[v];
    if (value.from_start && value.is_kept) always += value.size_bytes;
  }
  for (int32_t task = 0; task < problem.num_tasks(); ++task) {
    int64_t bytes = always + problem.workspace_bytes[task];
    for (const int32_t v : problem.values_of[task]) {
      const OrderedValue& value = problem.values[v];
      if (!(value.from_start && value.is_kept)) bytes += value.size_bytes;
    }
    lowest = std::max(lowest, bytes);
  }
  return lowest;
}

}  // namespace millrace
