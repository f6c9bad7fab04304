// Belady's rule with prices. The sweep keeps all that fits; when something must go, it is what is
// cheapest to get back for its bytes and for the time that they are free. To get a tensor back
// takes its operation and all of its operands that are gone, and theirs, up to what is there. A
// tensor is needed when its next reader comes in the given order, or, with all its readers past or
// none left, when something computed from it that is gone is needed.
//
// Nothing is let go before room is lacking, so what memory there is is used; instances end with
// their last reader all the same (budget_problem.h), and what proves to have been held for nothing
// costs nothing.
//
// Candidates lie in a heap by a worth that was right when they were put there. It grows as the next
// reader comes closer and as more of what they are computed from goes; so the least is taken out,
// valued anew, and put back unless it is still the least. Worth that falls, as when operands come
// back, is seen only when it comes up: a heuristic within one. O((ops + repeats) log n), times what
// a look at the neighbourhood costs, which is bounded.
//
// Going back for what is gone is a depth-first walk; all that open frames have gathered is pinned.
#include "passes/budget/budget_sweep.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace millrace {
namespace {

constexpr int kMaxNeighbours = 256;  // looked at for one worth
constexpr double kFree = 1e-9;       // time of what takes none: bytes still count

struct Candidate {
  double worth = 0;
  int32_t tensor = -1;
  int32_t version = 0;  // older ones of a tensor do not count
  bool operator>(const Candidate& o) const {
    return worth != o.worth ? worth > o.worth : tensor > o.tensor;
  }
};

}  // namespace

class BudgetSweeper::Sweep {
 public:
  Sweep(const BudgetSweeper& s, const SweepRule& rule, const SweepLimits& limits, int64_t& work)
      : s_(s),
        problem_(s.problem_),
        rule_(rule),
        limits_(limits),
        work_(work),
        max_work_(work + limits.max_work),
        there_(problem_.tensors.size(), 0),
        pins_(problem_.tensors.size(), 0),
        next_reader_(problem_.tensors.size(), 0),
        stamp_(problem_.tensors.size(), 0),
        version_(problem_.tensors.size(), 0),
        live_bytes_(problem_.fixed_bytes) {}

  SweepResult Run() {
    for (size_t t = 0; t < problem_.tensors.size(); ++t) {
      const BudgetTensor& tensor = problem_.tensors[t];
      if (tensor.producer >= 0) continue;
      there_[t] = 1;
      if (tensor.view_of < 0 && !s_.readers_[t].empty()) live_bytes_ += tensor.size_bytes;
    }
    result_.fits = true;
    for (int32_t op = 0; op < num_ops() && result_.fits; ++op) {
      result_.fits = RunWithOperands(op);
    }
    return std::move(result_);
  }

 private:
  int32_t num_ops() const { return static_cast<int32_t>(problem_.ops.size()); }
  int32_t Whole(int32_t tensor) const { return s_.storage_[tensor]; }
  int64_t SizeOf(int32_t whole) const { return problem_.tensors[whole].size_bytes; }
  bool IsView(int32_t tensor) const { return problem_.tensors[tensor].view_of >= 0; }

  // --- Running ---
  struct Frame {
    int32_t op = -1;
    size_t next = 0;                  // of `order`
    std::vector<int32_t> order = {};  // operands as they are gathered
  };

  Frame Open(int32_t op) {
    Frame frame{op, 0, problem_.ops[op].reads};
    if (rule_.gather == SweepRule::Gather::kThereFirst) {
      std::ranges::stable_partition(frame.order, [&](int32_t read) { return there_[read] != 0; });
    } else if (rule_.gather == SweepRule::Gather::kCostliestFirst && frame.order.size() > 1) {
      std::vector<std::pair<double, int32_t>> by_cost;
      for (const int32_t read : frame.order) {
        by_cost.emplace_back(there_[read] != 0 ? 0 : -TimeToGet(Whole(read)), read);
      }
      std::ranges::stable_sort(by_cost, {}, &std::pair<double, int32_t>::first);
      for (size_t i = 0; i < by_cost.size(); ++i) frame.order[i] = by_cost[i].second;
    }
    return frame;
  }

  // Runs `op` after everything that it reads and that is gone. False: no room, or too long.
  bool RunWithOperands(int32_t op) {
    std::vector<Frame> frames;
    frames.push_back(Open(op));
    while (!frames.empty()) {
      if (++work_ > max_work_ || result_.repeat_us > limits_.max_repeat_us) return false;
      Frame& frame = frames.back();
      if (frame.next < frame.order.size()) {
        const int32_t read = frame.order[frame.next];
        if (there_[read] != 0) {
          ++pins_[Whole(read)];
          ++frame.next;
        } else {
          frames.push_back(Open(problem_.tensors[read].producer));
        }
        continue;
      }
      const bool is_repeat = frames.size() > 1;
      if (!RunOne(frame.op, is_repeat)) return false;
      for (const int32_t read : frame.order) --pins_[Whole(read)];
      if (!is_repeat) now_ = op + 1;
      for (const int32_t read : frame.order) Offer(Whole(read));
      for (const int32_t write : problem_.ops[frame.op].writes) Offer(Whole(write));
      frames.pop_back();
    }
    return true;
  }

  bool RunOne(int32_t o, bool is_repeat) {
    const BudgetOp& op = problem_.ops[o];
    if (is_repeat && !op.can_repeat) {
      result_.failed_op = o;
      return false;
    }
    int64_t in_step = op.workspace_bytes;
    for (const int32_t write : op.writes) {
      ++pins_[Whole(write)];
      if (!IsView(write)) (there_[write] != 0 ? in_step : live_bytes_) += SizeOf(write);
      there_[write] = 1;
    }
    LetGoOfWrittenOver(op, is_repeat ? now_ : now_ + 1);
    while (live_bytes_ + in_step > limits_.budget_bytes) {
      const int32_t whole = LeastWorth();
      if (whole >= 0) {
        LetGo(whole);
        continue;
      }
      result_.failed_op = o;
      result_.needed_bytes = live_bytes_ + in_step;
      return false;
    }
    for (const int32_t write : op.writes) --pins_[Whole(write)];
    result_.steps.push_back(o);
    if (is_repeat) result_.repeat_us += op.time_us;
    return true;
  }

  // An operand that nobody needs any more, from operation `from` on, gives its bytes to a result.
  void LetGoOfWrittenOver(const BudgetOp& op, int32_t from) {
    for (const auto& [write, read] : op.in_place) {
      const int32_t whole = Whole(read);
      const BudgetTensor& tensor = problem_.tensors[whole];
      if (there_[whole] == 0 || tensor.producer < 0 || tensor.is_kept || pins_[whole] > 1 ||
          SizeOf(whole) != SizeOf(write) || NextReader(whole, from) < num_ops() ||
          MissingReadersNeed(whole) < num_ops()) {
        continue;
      }
      LetGo(whole);
      return;
    }
  }

  // --- Letting go ---
  void LetGo(int32_t whole) {
    live_bytes_ -= SizeOf(whole);
    there_[whole] = 0;
    for (const int32_t view : s_.views_[whole]) there_[view] = 0;
  }

  bool MayGo(int32_t whole) const {
    const BudgetTensor& tensor = problem_.tensors[whole];
    return there_[whole] != 0 && pins_[whole] == 0 && tensor.producer >= 0 && !tensor.is_kept &&
           SizeOf(whole) > 0 &&
           (problem_.ops[tensor.producer].can_repeat || NextReader(whole, now_) >= num_ops());
  }

  // Nobody will need it, or it can be made again: by operations that can run again, back to what is
  // there.
  bool CanDoWithout(int32_t whole) {
    const bool is_needed =
        NextReader(whole, now_) < num_ops() || MissingReadersNeed(whole) < num_ops();
    if (!is_needed) return true;
    ++query_;
    stack_.assign(1, whole);
    while (!stack_.empty()) {
      const BudgetTensor& tensor = problem_.tensors[stack_.back()];
      stack_.pop_back();
      if (tensor.producer < 0) continue;
      const BudgetOp& op = problem_.ops[tensor.producer];
      if (!op.can_repeat) return false;
      ++work_;
      for (const int32_t read : op.reads) {
        const int32_t operand = Whole(read);
        if (there_[operand] != 0 || stamp_[operand] == query_) continue;
        stamp_[operand] = query_;
        stack_.push_back(operand);
      }
    }
    return true;
  }

  // Makes it a candidate, by what it is worth now.
  void Offer(int32_t whole) {
    if (MayGo(whole)) heap_.push({WorthOf(whole), whole, ++version_[whole]});
  }

  int32_t LeastWorth() {
    while (!heap_.empty()) {
      const Candidate least = heap_.top();
      heap_.pop();
      if (least.version != version_[least.tensor] || !MayGo(least.tensor)) continue;
      if (!CanDoWithout(least.tensor)) continue;
      const double worth = WorthOf(least.tensor);
      if (heap_.empty() || worth <= heap_.top().worth) return least.tensor;
      heap_.push({worth, least.tensor, least.version});
    }
    return -1;
  }

  // --- Worth ---
  // The first operation from `from` on that reads it in the given order; num_ops() if none does.
  int32_t NextReader(int32_t whole, int32_t from) const {
    const std::vector<int32_t>& readers = s_.readers_[whole];
    int32_t& next = next_reader_[whole];
    while (next < std::ssize(readers) && readers[next] < now_) ++next;
    for (int32_t i = next; i < std::ssize(readers); ++i) {
      if (readers[i] >= from) return readers[i];
    }
    return num_ops();
  }

  // When something that was computed from it and is gone is needed.
  int32_t MissingReadersNeed(int32_t whole) {
    int32_t need = num_ops();
    ++query_;
    stack_.assign(1, whole);
    int visited = 0;
    while (!stack_.empty() && visited < kMaxNeighbours) {
      const int32_t at = stack_.back();
      stack_.pop_back();
      for (const int32_t reader : s_.readers_[at]) {
        if (reader >= now_) break;  // has not run
        for (const int32_t write : problem_.ops[reader].writes) {
          const int32_t result = Whole(write);
          if (there_[result] != 0 || stamp_[result] == query_) continue;
          stamp_[result] = query_;
          ++visited;
          need = std::min(need, NextReader(result, now_));
          stack_.push_back(result);
        }
      }
    }
    work_ += visited;
    return need;
  }

  // Its operation and what that needs and is gone.
  double TimeToGet(int32_t whole) {
    double time_us = 0;
    ++query_;
    stack_.assign(1, whole);
    stamp_[whole] = query_;
    int visited = 0;
    while (!stack_.empty() && visited < kMaxNeighbours) {
      const int32_t at = stack_.back();
      stack_.pop_back();
      ++visited;
      const BudgetOp& op = problem_.ops[problem_.tensors[at].producer];
      time_us += op.time_us;
      for (const int32_t read : op.reads) {
        const int32_t operand = Whole(read);
        if (there_[operand] != 0 || stamp_[operand] == query_) continue;
        stamp_[operand] = query_;
        stack_.push_back(operand);
      }
    }
    work_ += visited;
    return time_us;
  }

  double WorthOf(int32_t whole) {
    const int32_t need = std::min(NextReader(whole, now_), MissingReadersNeed(whole));
    if (need >= num_ops()) return 0;
    const double gap_us = std::max(s_.begin_us_[need] - s_.begin_us_[now_], 0.0) + kFree;
    const double bias = rule_.bias.empty() ? 1 : rule_.bias[whole];
    return bias * (TimeToGet(whole) + kFree) /
           (std::pow(static_cast<double>(SizeOf(whole)), rule_.size_exponent) *
            std::pow(gap_us, rule_.gap_exponent));
  }

  const BudgetSweeper& s_;
  const BudgetProblem& problem_;
  const SweepRule& rule_;
  const SweepLimits& limits_;
  int64_t& work_;
  const int64_t max_work_;
  SweepResult result_;
  int32_t now_ = 0;                           // operation of the given order that runs or runs next
  std::vector<uint8_t> there_;                // by tensor
  std::vector<int32_t> pins_;                 // by storage
  mutable std::vector<int32_t> next_reader_;  // by storage: index of the first not before now_
  std::vector<int64_t> stamp_;                // by tensor: the last query that saw it
  std::vector<int32_t> version_;              // by storage: of its candidate
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
  std::vector<int32_t> stack_;
  int64_t query_ = 0;
  int64_t live_bytes_;
};

BudgetSweeper::BudgetSweeper(const BudgetProblem& problem)
    : problem_(problem),
      storage_(StorageOfTensors(problem)),
      readers_(ReadersOfStorage(problem, storage_)),
      views_(problem.tensors.size()) {
  for (size_t t = 0; t < storage_.size(); ++t) {
    if (storage_[t] != static_cast<int32_t>(t)) {
      views_[storage_[t]].push_back(static_cast<int32_t>(t));
    }
  }
  double time_us = 0;
  for (const BudgetOp& op : problem.ops) {
    begin_us_.push_back(time_us);
    time_us += op.time_us;
  }
  begin_us_.push_back(time_us);
}

BudgetSweeper::~BudgetSweeper() = default;

SweepResult BudgetSweeper::Run(const SweepRule& rule, const SweepLimits& limits, int64_t& work) {
  return Sweep(*this, rule, limits, work).Run();
}

}  // namespace millrace
