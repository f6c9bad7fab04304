// The adversary: runs any plan on the host with one thread, which chooses by seed what stream goes
// on next, among those that the plan's streams, events and meetings let go on. A plan is right when
// no such order changes a bit or comes to a stop.
//
// In checked mode it also finds what a kernel may not do: fresh memory, scratch and results are
// filled with NaNs before they are written, each kernel runs on copies of its operands with red
// zones around them, and what it only reads must be the same afterwards.
#ifndef MILLRACE_TESTS_ADVERSARY_ADVERSARY_H_
#define MILLRACE_TESTS_ADVERSARY_ADVERSARY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "graph/plan.h"
#include "graph/status.h"
#include "graph/tensor.h"
#include "runtime/kernel.h"

namespace millrace {

struct AdversaryOptions {
  uint64_t seed = 0;
  bool checked = true;
  KernelLibrary* kernels = nullptr;       // run every Launch, whatever device the plan is for
  KernelLibrary* host_kernels = nullptr;  // run every HostCall
};

class Adversary {
 public:
  // Loads params and constants and runs the init section. The plan need not be right: what would
  // touch memory that is not there is an error here. It outlives the adversary.
  static absl::StatusOr<std::unique_ptr<Adversary>> Create(const PlanBundle& plan,
                                                           const AdversaryOptions& options);
  ~Adversary();

  // One step; another order each time. Inputs by name, all microbatches stacked. InternalError when
  // no stream can go on, or, in checked mode, when a kernel did what it may not.
  absl::Status Step(const std::map<std::string, Tensor>& inputs);

  absl::StatusOr<Tensor> Output(std::string_view name) const;  // stacked
  absl::StatusOr<Tensor> Param(std::string_view name) const;

  int64_t choices() const;  // how often there was more than one stream to go on with

 private:
  Adversary();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_ADVERSARY_H_
