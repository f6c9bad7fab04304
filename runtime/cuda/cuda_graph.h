// CudaGraph: a sequence of Stream calls recorded once and replayed by one driver call, which costs
// the host a fraction of issuing them anew.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_GRAPH_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_GRAPH_H_

#include <memory>
#include <span>
#include <vector>

#include "graph/status.h"
#include "runtime/cuda/cuda_stream.h"

namespace millrace {

class CudaGraph {
 public:
  // What is issued to `streams` (of one cuda device, at least one) from here to EndCapture is
  // recorded and not run. They outlive the graph. Launch, Copy between device and pinned memory,
  // Record and Wait can be recorded; anything else, a Wait for an event recorded outside, and
  // Synchronize are refused by the call itself, and again by EndCapture.
  static absl::StatusOr<std::unique_ptr<CudaGraph>> BeginCapture(std::span<Stream* const> streams);
  // Ends a capture still open, and drops what was recorded; replays may be in flight.
  ~CudaGraph();

  // Whatever it returns, the streams run what they are given again.
  absl::Status EndCapture();

  // Queues the recorded work: after all that was issued to any of the streams, before all that is
  // issued later. Only after EndCapture returned ok.
  absl::Status Launch();

 private:
  // A stream with the event by which it forks from and joins the first one.
  struct Lane {
    CudaStream* stream;
    std::unique_ptr<CudaEvent> event;
  };

  explicit CudaGraph(std::vector<Lane> lanes) : lanes_(std::move(lanes)) {}
  const CudaContext& context() const { return *lanes_[0].stream->context(); }
  absl::Status Check(CUresult result, std::string_view doing) const;
  absl::Status Begin();
  absl::Status Fork();  // the other lanes wait for the first one
  absl::Status Join();  // the first one waits for those that forked from it
  absl::Status Instantiate(CUgraph graph);

  const std::vector<Lane> lanes_;
  size_t forked_ = 1;                     // lanes that wait for the first one; itself included
  std::shared_ptr<CudaCapture> capture_;  // while capturing
  CUgraphExec graph_ = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_GRAPH_H_
