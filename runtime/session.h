// Session: a checked plan made ready on devices: arenas allocated, weights loaded, kernels
// prepared. Run executes one step. Knows plans only, never passes.
#ifndef MILLRACE_RUNTIME_SESSION_H_
#define MILLRACE_RUNTIME_SESSION_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/check/check.h"
#include "graph/tensor.h"
#include "runtime/communicator.h"
#include "runtime/device_table.h"
#include "runtime/trace.h"

namespace millrace {

struct SessionOptions {
  Communicator* communicator = nullptr;  // needed by plans with more than one endpoint
  Tracer* tracer = nullptr;              // records every instruction of Run when set
  bool poison = false;  // fill arenas with NaN bytes first, to make reads of nothing visible
  // Data for params instead of their DataSource (a checkpoint), by value name.
  std::map<std::string, Tensor> params = {};
};

//
// Of a plan whose endpoints are spread over processes, each process has a session that runs those
// on the devices of its own table. All take the same calls in the same order, and give the same
// results: what another process holds is sent here.
class Session {
 public:
  // Allocates, loads, prepares, runs the init section.
  static absl::StatusOr<std::unique_ptr<Session>> Create(CheckedPlan plan,
                                                         const DeviceTable& devices,
                                                         const SessionOptions& options = {});
  ~Session();

  const PlanBundle& plan() const;

  // The tensor has the input's type with dim 0 times plan().microbatches; an input of rank 0 is the
  // same for all microbatches. Its bytes are shared, not copied, and must not change until the next
  // SetInput of this name. UsageError naming the inputs there are, or both types.
  absl::Status SetInput(std::string_view name, const Tensor& tensor);

  // As made anew with this data for params (SessionOptions::params): params and constants are
  // loaded, those not named here from their own sources, and the init section runs. Inputs stay.
  absl::Status Reload(const std::map<std::string, Tensor>& params);

  // One step on all endpoints of this process. UsageError when an input was never set. After a failure the session
  // is unusable and says so.
  absl::Status Run();

  // Runs the finish section, once, when the last step is done. Not run by the destructor.
  absl::Status Finish();

  // After Run. Stacked like inputs (rank 0: one element a microbatch, [m], when there are m > 1);
  // of the true size when bounded.
  absl::StatusOr<Tensor> Output(std::string_view name);
  // The newest version of a param, read back from its home.
  absl::StatusOr<Tensor> Param(std::string_view name);

  // Bytes allocated on each device, by device name.
  std::map<std::string, int64_t> DeviceBytes() const;

 private:
  Session();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SESSION_H_
