#include "tests/passes/random_schedule.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace millrace {
namespace {

int32_t Below(std::mt19937& random, int32_t n) { return static_cast<int32_t>(random() % n); }

}  // namespace

ScheduleProblem RandomSchedule(std::mt19937& random, const RandomScheduleShape& shape) {
  ScheduleProblem problem;
  problem.tasks.resize(shape.tasks);
  const int32_t num_inputs = Below(random, 3);
  for (int32_t i = 0; i < num_inputs; ++i) {
    problem.results.push_back({.size_bytes = 1 + Below(random, 20), .is_kept = random() % 4 == 0});
  }
  for (int32_t t = 0; t < shape.tasks; ++t) {
    ScheduleTask& task = problem.tasks[t];
    task.time_us = 1 + Below(random, 20);
    if (shape.workspaces && random() % 3 == 0) task.workspace_bytes = Below(random, 30);
    const int32_t first = std::max(0, static_cast<int32_t>(problem.results.size()) - shape.reach);
    std::set<int32_t> reads;
    for (int32_t k = 0; k < 3; ++k) {
      if (random() % 1000 >= shape.reads_per_task / 3 * 1000) continue;
      const auto there = static_cast<int32_t>(problem.results.size());
      if (there > 0) reads.insert(first + Below(random, there - first));
    }
    for (const int32_t r : reads) problem.results[r].readers.push_back(t);
    if (shape.extra_edges && t > 0 && random() % 4 == 0) {
      problem.edges.push_back({Below(random, t), t});
    }
    const int32_t makes = random() % 6 == 0 ? 2 : 1;
    for (int32_t k = 0; k < makes; ++k) {
      problem.results.push_back(
          {.size_bytes = Below(random, 40), .producer = t, .is_kept = random() % 10 == 0});
    }
  }
  return problem;
}

ScheduleProblem BranchedSchedule(std::mt19937& random, int32_t num_blocks, int32_t width,
                                 int32_t depth) {
  ScheduleProblem problem;
  const auto add = [&](const std::vector<int32_t>& reads) {
    const auto task = static_cast<int32_t>(problem.tasks.size());
    problem.tasks.push_back({.time_us = static_cast<double>(1 + Below(random, 20))});
    for (const int32_t r : reads) problem.results[r].readers.push_back(task);
    problem.results.push_back({.size_bytes = 1 + Below(random, 100), .producer = task});
    return static_cast<int32_t>(problem.results.size()) - 1;
  };
  int32_t x = add({});
  for (int32_t block = 0; block < num_blocks; ++block) {
    std::vector<int32_t> branches(width, x);
    for (int32_t level = 0; level < depth; ++level) {
      for (int32_t& branch : branches) branch = add({branch});
    }
    x = add(branches);
  }
  problem.results[x].is_kept = true;
  return problem;
}

namespace {

void Extend(const std::vector<std::vector<int32_t>>& before, std::vector<int32_t>& order,
            std::vector<bool>& is_done,
            const std::function<void(std::span<const int32_t>)>& visit) {
  if (order.size() == before.size()) return visit(order);
  for (size_t t = 0; t < before.size(); ++t) {
    const auto is_there = [&](int32_t task) { return is_done[task]; };
    if (is_done[t] || !std::ranges::all_of(before[t], is_there)) continue;
    is_done[t] = true;
    order.push_back(static_cast<int32_t>(t));
    Extend(before, order, is_done, visit);
    order.pop_back();
    is_done[t] = false;
  }
}

}  // namespace

void ForEachOrder(const ScheduleProblem& problem,
                  const std::function<void(std::span<const int32_t>)>& visit) {
  std::vector<std::vector<int32_t>> before(problem.tasks.size());
  for (const ScheduleResult& result : problem.results) {
    for (const int32_t reader : result.readers) {
      if (result.producer >= 0) before[reader].push_back(result.producer);
    }
  }
  for (const TaskEdge& edge : problem.edges) before[edge.after].push_back(edge.before);
  std::vector<int32_t> order;
  std::vector<bool> is_done(problem.tasks.size(), false);
  Extend(before, order, is_done, visit);
}

}  // namespace millrace
