// Time jumps from one end of a task to the next. At each such moment tasks end, others begin, and
// then those that share a resource with any of them get a new speed: what is left of a task, at the
// new speed, gives its new end, which goes into a heap. Ends in the heap that were overtaken by a
// later speed carry an old version number and are passed over.
#include "runtime/sim/fluid.h"

#include <algorithm>
#include <queue>

namespace millrace {

int32_t FluidProblem::AddTask(double duration_us) {
  durations_us_.push_back(duration_us);
  return num_tasks() - 1;
}

void FluidProblem::AddUse(int32_t task, int32_t resource, double share) {
  if (share > 0) uses_.push_back({task, resource, share});
}

void FluidProblem::AddOrder(int32_t before, int32_t after) { orders_.emplace_back(before, after); }

namespace {

// Sums of shares this close to 1 are 1: shares are sums of rounded numbers themselves.
constexpr double kFull = 1 + 1e-6;

// Lists of items by owner, in one array.
template <typename Item>
class ByOwner {
 public:
  template <typename Source, typename OwnerOf, typename ItemOf>
  ByOwner(int32_t owners, const std::vector<Source>& sources, OwnerOf owner_of, ItemOf item_of)
      : begins_(owners + 1, 0) {
    for (const Source& s : sources) ++begins_[owner_of(s) + 1];
    for (int32_t i = 0; i < owners; ++i) begins_[i + 1] += begins_[i];
    std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
    items_.resize(sources.size());
    for (const Source& s : sources) items_[next[owner_of(s)]++] = item_of(s);
  }
  const Item* begin(int32_t owner) const { return items_.data() + begins_[owner]; }
  const Item* end(int32_t owner) const { return items_.data() + begins_[owner + 1]; }

 private:
  std::vector<int64_t> begins_;
  std::vector<Item> items_;
};

struct ResourceShare {
  int32_t resource = 0;
  double share = 0;
};

}  // namespace

class FluidPlayer {
 public:
  explicit FluidPlayer(const FluidProblem& problem)
      : problem_(problem),
        after_(
            problem.num_tasks(), problem.orders_, [](const auto& o) { return o.first; },
            [](const auto& o) { return o.second; }),
        uses_(
            problem.num_tasks(), problem.uses_, [](const auto& u) { return u.task; },
            [](const auto& u) {
              return ResourceShare{u.resource, u.share};
            }),
        waits_for_(problem.num_tasks(), 0),
        running_(problem.num_tasks()),
        on_(problem.num_resources()),
        load_(problem.num_resources(), 0),
        is_touched_(problem.num_resources(), false) {
    times_.begin_us.assign(problem.num_tasks(), -1);
    times_.end_us.assign(problem.num_tasks(), -1);
    times_.last_before.assign(problem.num_tasks(), -1);
    times_.slowed_by.assign(problem.num_tasks(), -1);
    times_.busy_us.assign(problem.num_resources(), 0);
    for (const auto& [before, after] : problem.orders_) ++waits_for_[after];
    for (const auto& use : problem.uses_) {
      times_.busy_us[use.resource] += use.share * problem.durations_us_[use.task];
    }
  }

  FluidTimes Play() {
    for (int32_t task = 0; task < problem_.num_tasks(); ++task) {
      if (waits_for_[task] == 0) ready_.push_back(task);
    }
    BeginReady();
    while (!ends_.empty()) {
      const End next = ends_.top();
      ends_.pop();
      if (next.version != running_[next.task].version) continue;
      now_us_ = next.time_us;
      Finish(next.task);
      // Whatever else ends at this very moment.
      while (!ends_.empty() && ends_.top().time_us <= now_us_) {
        const End same = ends_.top();
        ends_.pop();
        if (same.version == running_[same.task].version) Finish(same.task);
      }
      BeginReady();
    }
    for (const double end_us : times_.end_us) times_.never_begun += end_us < 0;
    times_.total_us = now_us_;
    return std::move(times_);
  }

 private:
  struct Running {
    double left_us = 0;  // of the duration, at `since_us`
    double since_us = 0;
    double speed = 0;
    int32_t version = -1;  // of its end in the heap; -1: does not run
  };
  struct End {
    double time_us;
    int32_t task, version;
    bool operator>(const End& o) const {
      return time_us != o.time_us ? time_us > o.time_us : task > o.task;
    }
  };

  void BeginReady() {
    for (size_t i = 0; i < ready_.size(); ++i) Begin(ready_[i]);
    ready_.clear();
    SetSpeeds();
  }

  void Begin(int32_t task) {
    times_.begin_us[task] = now_us_;
    const double duration_us = problem_.durations_us_[task];
    if (!(duration_us > 0)) return MarkEnded(task);
    running_[task] = {.left_us = duration_us, .since_us = now_us_, .speed = 0, .version = 0};
    started_.push_back(task);
    for (const ResourceShare* use = uses_.begin(task); use != uses_.end(task); ++use) {
      on_[use->resource].push_back({task, use->share});
      Touch(use->resource);
    }
  }

  void Finish(int32_t task) {
    running_[task].version = -1;
    for (const ResourceShare* use = uses_.begin(task); use != uses_.end(task); ++use) {
      std::erase_if(on_[use->resource], [&](const OnResource& on) { return on.task == task; });
      Touch(use->resource);
    }
    MarkEnded(task);
  }

  // May make others ready; they begin in the same moment.
  void MarkEnded(int32_t task) {
    times_.end_us[task] = now_us_;
    for (const int32_t* next = after_.begin(task); next != after_.end(task); ++next) {
      times_.last_before[*next] = task;
      if (--waits_for_[*next] == 0) ready_.push_back(*next);
    }
  }

  void Touch(int32_t resource) {
    if (is_touched_[resource]) return;
    is_touched_[resource] = true;
    touched_.push_back(resource);
  }

  void SetSpeeds() {
    for (const int32_t resource : touched_) {
      load_[resource] = 0;
      for (const OnResource& on : on_[resource]) load_[resource] += on.share;
    }
    for (const int32_t resource : touched_) {
      is_touched_[resource] = false;
      for (const OnResource& on : on_[resource]) SetSpeed(on.task);
    }
    touched_.clear();
    // Those that use nothing shared.
    for (const int32_t task : started_) {
      if (running_[task].speed == 0) SetSpeed(task);
    }
    started_.clear();
  }

  void SetSpeed(int32_t task) {
    Running& r = running_[task];
    double most = kFull;
    for (const ResourceShare* use = uses_.begin(task); use != uses_.end(task); ++use) {
      if (load_[use->resource] <= most) continue;
      most = load_[use->resource];
      times_.slowed_by[task] = use->resource;
    }
    const double speed = most > kFull ? 1 / most : 1;
    if (speed == r.speed) return;
    r.left_us = std::max(0.0, r.left_us - (now_us_ - r.since_us) * r.speed);
    r.since_us = now_us_;
    r.speed = speed;
    ends_.push({now_us_ + r.left_us / speed, task, ++r.version});
  }

  struct OnResource {
    int32_t task;
    double share;
  };

  const FluidProblem& problem_;
  const ByOwner<int32_t> after_;
  const ByOwner<ResourceShare> uses_;
  std::vector<int32_t> waits_for_;           // tasks, by task
  std::vector<Running> running_;             // by task
  std::vector<std::vector<OnResource>> on_;  // running tasks, by resource
  std::vector<double> load_;                 // by resource
  std::vector<int32_t> touched_;             // resources whose load changed at this moment
  std::vector<bool> is_touched_;
  std::vector<int32_t> ready_, started_;
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;
  double now_us_ = 0;
  FluidTimes times_;
};

FluidTimes Play(const FluidProblem& problem) { return FluidPlayer(problem).Play(); }

}  // namespace millrace
