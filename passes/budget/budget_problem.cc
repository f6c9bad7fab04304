#include "passes/budget/budget_problem.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {

std::vector<int32_t> StorageOfTensors(const BudgetProblem& problem) {
  std::vector<int32_t> storage(problem.tensors.size());
  for (size_t t = 0; t < storage.size(); ++t) {
    const int32_t of = problem.tensors[t].view_of;
    storage[t] = of < 0 ? static_cast<int32_t>(t) : storage[of];
  }
  return storage;
}

std::vector<std::vector<int32_t>> ReadersOfStorage(const BudgetProblem& problem,
                                                   std::span<const int32_t> storage) {
  std::vector<std::vector<int32_t>> readers(problem.tensors.size());
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    for (const int32_t read : problem.ops[o].reads) {
      std::vector<int32_t>& list = readers[storage[read]];
      if (list.empty() || list.back() != static_cast<int32_t>(o)) {
        list.push_back(static_cast<int32_t>(o));
      }
    }
  }
  return readers;
}

absl::Status VerifyBudgetProblem(const BudgetProblem& problem) {
  const auto num_tensors = static_cast<int32_t>(problem.tensors.size());
  const auto num_ops = static_cast<int32_t>(problem.ops.size());
  std::vector<uint8_t> there(num_tensors, 0);
  for (int32_t t = 0; t < num_tensors; ++t) {
    const BudgetTensor& tensor = problem.tensors[t];
    if (tensor.size_bytes < 0 || tensor.producer < -1 || tensor.producer >= num_ops) {
      return InternalError(StrCat("tensor ", t, " has ", tensor.size_bytes, " bytes, of operation ",
                                  tensor.producer, " of ", num_ops));
    }
    if (tensor.view_of >= t || tensor.view_of < -1) {
      return InternalError(StrCat("tensor ", t, " is a view of tensor ", tensor.view_of));
    }
    there[t] = tensor.producer < 0;
  }
  for (int32_t o = 0; o < num_ops; ++o) {
    const BudgetOp& op = problem.ops[o];
    if (!(op.time_us >= 0) || op.workspace_bytes < 0) {
      return InternalError(StrCat("operation ", o, " takes ", op.time_us, " us and ",
                                  op.workspace_bytes, " bytes to work in"));
    }
    for (const int32_t read : op.reads) {
      if (read < 0 || read >= num_tensors || there[read] == 0) {
        return InternalError(StrCat("operation ", o, " reads tensor ", read, " before it is made"));
      }
    }
    for (const int32_t write : op.writes) {
      if (write < 0 || write >= num_tensors || problem.tensors[write].producer != o) {
        return InternalError(StrCat("operation ", o, " writes tensor ", write, " of another"));
      }
      const int32_t of = problem.tensors[write].view_of;
      if (of >= 0 && std::ranges::find(op.reads, of) == op.reads.end()) {
        return InternalError(
            StrCat("tensor ", write, " is a view of ", of, ", which operation ", o, " reads not"));
      }
      there[write] = 1;
    }
  }
  return absl::OkStatus();
}

namespace {

// One instance of a storage: the steps that it lives in.
struct Instance {
  int32_t tensor = -1;
  int32_t first = 0, last = 0;
};

// The instances that `steps` make, and the bytes that are written over an operand's at a step.
class StepsPlayer {
 public:
  StepsPlayer(const BudgetProblem& problem, std::span<const int32_t> steps)
      : problem_(problem),
        steps_(steps),
        storage_(StorageOfTensors(problem)),
        newest_(problem.tensors.size(), -1),
        saved_(steps.size(), 0) {}

  absl::Status Play() {
    std::vector<uint8_t> has_run(problem_.ops.size(), 0);
    for (size_t t = 0; t < problem_.tensors.size(); ++t) {
      if (problem_.tensors[t].producer < 0) Make(static_cast<int32_t>(t), 0);
    }
    for (size_t s = 0; s < steps_.size(); ++s) {
      const int32_t o = steps_[s];
      if (o < 0 || o >= std::ssize(problem_.ops)) {
        return InternalError(StrCat("step ", s, " runs operation ", o));
      }
      if (has_run[o] != 0 && !problem_.ops[o].can_repeat) {
        return InternalError(StrCat("step ", s, " repeats operation ", o));
      }
      has_run[o] = 1;
      MILLRACE_RETURN_IF_ERROR(PlayStep(static_cast<int32_t>(s)));
    }
    const auto missing = std::ranges::find(has_run, 0);
    if (missing != has_run.end()) {
      return InternalError(StrCat("operation ", missing - has_run.begin(), " never runs"));
    }
    const auto last = static_cast<int32_t>(steps_.size()) - 1;
    for (size_t t = 0; t < problem_.tensors.size(); ++t) {
      if (problem_.tensors[t].is_kept && newest_[t] >= 0) instances_[newest_[t]].last = last;
    }
    SaveInPlace();
    return absl::OkStatus();
  }

  std::span<const Instance> instances() const { return instances_; }

  std::vector<int64_t> BytesByStep() const {
    std::vector<int64_t> bytes(steps_.size() + 1, 0);
    for (const Instance& instance : instances_) {
      bytes[instance.first] += problem_.tensors[instance.tensor].size_bytes;
      bytes[instance.last + 1] -= problem_.tensors[instance.tensor].size_bytes;
    }
    int64_t live = problem_.fixed_bytes;
    for (size_t s = 0; s < steps_.size(); ++s) {
      live += bytes[s];
      bytes[s] = live + problem_.ops[steps_[s]].workspace_bytes - saved_[s];
    }
    bytes.pop_back();
    return bytes;
  }

 private:
  // Of what is kept the first instance stays; another is gone after its step.
  void Make(int32_t tensor, int32_t step) {
    if (newest_[tensor] < 0 || !problem_.tensors[tensor].is_kept) {
      newest_[tensor] = static_cast<int32_t>(instances_.size());
    }
    instances_.push_back({tensor, step, step});
  }

  absl::Status PlayStep(int32_t s) {
    const BudgetOp& op = problem_.ops[steps_[s]];
    for (const int32_t read : op.reads) {
      if (newest_[read] < 0) {
        return InternalError(StrCat("step ", s, " (operation ", steps_[s], ") reads tensor ", read,
                                    ", which is not there"));
      }
      instances_[newest_[read]].last = s;
    }
    pairs_.resize(steps_.size());
    for (const auto& [write, read] : op.in_place) pairs_[s].push_back(newest_[storage_[read]]);
    for (const int32_t write : op.writes) {
      if (problem_.tensors[write].view_of >= 0) {
        newest_[write] = newest_[problem_.tensors[write].view_of];
      } else {
        Make(write, s);
      }
    }
    return absl::OkStatus();
  }

  // Each operand gives its bytes to one result at most, and each result takes those of one.
  void SaveInPlace() {
    std::vector<int32_t> written, given;
    for (size_t s = 0; s < steps_.size(); ++s) {
      const BudgetOp& op = problem_.ops[steps_[s]];
      written.clear();
      given.clear();
      for (size_t i = 0; i < op.in_place.size(); ++i) {
        const int32_t write = op.in_place[i].write, from = pairs_[s][i];
        const Instance& old = instances_[from];
        const int64_t size = problem_.tensors[write].size_bytes;
        if (old.last != static_cast<int32_t>(s) || old.first == old.last ||
            problem_.tensors[old.tensor].producer < 0 ||
            problem_.tensors[old.tensor].size_bytes != size ||
            std::ranges::find(written, write) != written.end() ||
            std::ranges::find(given, from) != given.end()) {
          continue;
        }
        written.push_back(write);
        given.push_back(from);
        saved_[s] += size;
      }
    }
  }

  const BudgetProblem& problem_;
  const std::span<const int32_t> steps_;
  const std::vector<int32_t> storage_;
  std::vector<Instance> instances_;
  std::vector<int32_t> newest_;              // by tensor; -1: none yet
  std::vector<std::vector<int32_t>> pairs_;  // by step and in-place pair: the operand's instance
  std::vector<int64_t> saved_;               // by step
};

}  // namespace

absl::StatusOr<StepsMeasure> MeasureSteps(const BudgetProblem& problem,
                                          std::span<const int32_t> steps) {
  StepsPlayer player(problem, steps);
  MILLRACE_RETURN_IF_ERROR(player.Play());
  StepsMeasure measure{.peak_bytes = problem.fixed_bytes};
  const std::vector<int64_t> bytes = player.BytesByStep();
  std::vector<uint8_t> has_run(problem.ops.size(), 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    if (bytes[s] > measure.peak_bytes) {
      measure.peak_bytes = bytes[s];
      measure.peak_step = static_cast<int32_t>(s);
    }
    const double time_us = problem.ops[steps[s]].time_us;
    measure.time_us += time_us;
    if (has_run[steps[s]] != 0) {
      measure.repeat_us += time_us;
      ++measure.num_repeats;
    }
    has_run[steps[s]] = 1;
  }
  return measure;
}

std::vector<LiveTensor> LiveAtStep(const BudgetProblem& problem, std::span<const int32_t> steps,
                                   int32_t at) {
  StepsPlayer player(problem, steps);
  std::vector<LiveTensor> live;
  if (!player.Play().ok()) return live;
  for (const Instance& instance : player.instances()) {
    if (instance.first <= at && at <= instance.last) {
      live.push_back({instance.tensor, problem.tensors[instance.tensor].size_bytes});
    }
  }
  std::ranges::stable_sort(live, std::ranges::greater(), &LiveTensor::size_bytes);
  return live;
}

namespace {

// Bytes of operands that may at best lie in those of results.
int64_t MostWrittenOver(const BudgetProblem& problem, std::span<const int32_t> storage,
                        const BudgetOp& op) {
  int64_t saved = 0;
  std::vector<int32_t> given;
  std::vector<std::pair<int32_t, int64_t>> room;  // of results
  for (const auto& [write, read] : op.in_place) {
    const int32_t whole = storage[read];
    const BudgetTensor& tensor = problem.tensors[whole];
    if (tensor.is_kept || std::ranges::find(given, whole) != given.end()) continue;
    auto of = std::ranges::find(room, write, &std::pair<int32_t, int64_t>::first);
    if (of == room.end()) of = room.insert(of, {write, problem.tensors[write].size_bytes});
    if (of->second == 0) continue;
    const int64_t shared = std::min(of->second, tensor.size_bytes);
    of->second -= shared;
    saved += shared;
    given.push_back(whole);
  }
  return saved;
}

}  // namespace

WorkingSet LargestWorkingSet(const BudgetProblem& problem) {
  const std::vector<int32_t> storage = StorageOfTensors(problem);
  WorkingSet largest{problem.fixed_bytes, -1};
  std::vector<int32_t> seen(problem.tensors.size(), -1);  // by tensor: the last op that counted it
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const BudgetOp& op = problem.ops[o];
    const auto index = static_cast<int32_t>(o);
    int64_t bytes = problem.fixed_bytes + op.workspace_bytes;
    for (const auto* list : {&op.reads, &op.writes}) {
      for (const int32_t tensor : *list) {
        const int32_t whole = storage[tensor];
        if (seen[whole] != index) bytes += problem.tensors[whole].size_bytes;
        seen[whole] = index;
      }
    }
    bytes -= MostWrittenOver(problem, storage, op);
    if (bytes > largest.bytes) largest = {bytes, index};
  }
  return largest;
}

}  // namespace millrace
