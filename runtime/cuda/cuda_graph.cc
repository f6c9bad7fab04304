// The driver captures one stream and whatever streams come to depend on it. So the first stream is
// the origin: the others fork from it by waiting for an event as the capture begins and join it
// again as it ends, which also gives replays their place in every stream's order.
#include "runtime/cuda/cuda_graph.h"

#include "graph/strings.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<CudaGraph>> CudaGraph::BeginCapture(
    std::span<Stream* const> streams) {
  if (streams.empty()) return UsageError("a capture needs at least one stream");
  std::vector<Lane> lanes;
  for (Stream* s : streams) {
    auto* stream = static_cast<CudaStream*>(s);
    if (stream->capturing()) {
      return UsageError(
          StrCat(stream->context()->name(), ": the stream is being captured already"));
    }
    MILLRACE_ASSIGN_OR_RETURN(auto event, CudaEvent::Create(stream->context()));
    lanes.push_back({stream, std::move(event)});
  }
  std::unique_ptr<CudaGraph> graph(new CudaGraph(std::move(lanes)));
  MILLRACE_RETURN_IF_ERROR(graph->Begin());
  return graph;
}

CudaGraph::~CudaGraph() {
  if (capture_ != nullptr) EndCapture().IgnoreError();
  if (graph_ == nullptr) return;
  context().EnterToFree();
  context().driver().GraphExecDestroy(graph_);
}

absl::Status CudaGraph::Check(CUresult result, std::string_view doing) const {
  return result == CUDA_SUCCESS ? absl::OkStatus() : context().Error(result, doing);
}

absl::Status CudaGraph::Begin() {
  MILLRACE_RETURN_IF_ERROR(context().Enter());
  // Thread-local: other threads may allocate and synchronize meanwhile.
  MILLRACE_RETURN_IF_ERROR(
      Check(context().driver().StreamBeginCapture(lanes_[0].stream->native(),
                                                  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            "beginning a capture"));
  capture_ = std::make_shared<CudaCapture>();
  for (const Lane& lane : lanes_) lane.stream->BeginCapture(capture_);
  return Fork();
}

absl::Status CudaGraph::Fork() {
  const CudaDriver& driver = context().driver();
  MILLRACE_RETURN_IF_ERROR(
      Check(driver.EventRecord(lanes_[0].event->native(), lanes_[0].stream->native()),
            "recording a fork"));
  for (forked_ = 1; forked_ < lanes_.size(); ++forked_) {
    MILLRACE_RETURN_IF_ERROR(
        Check(driver.StreamWaitEvent(lanes_[forked_].stream->native(), lanes_[0].event->native(),
                                     CU_EVENT_WAIT_DEFAULT),
              "forking a stream"));
  }
  return absl::OkStatus();
}

absl::Status CudaGraph::Join() {
  const CudaDriver& driver = context().driver();
  for (size_t i = 1; i < forked_; ++i) {
    MILLRACE_RETURN_IF_ERROR(
        Check(driver.EventRecord(lanes_[i].event->native(), lanes_[i].stream->native()),
              "recording a join"));
    MILLRACE_RETURN_IF_ERROR(
        Check(driver.StreamWaitEvent(lanes_[0].stream->native(), lanes_[i].event->native(),
                                     CU_EVENT_WAIT_DEFAULT),
              "joining a stream"));
  }
  return absl::OkStatus();
}

absl::Status CudaGraph::EndCapture() {
  if (capture_ == nullptr) return UsageError("EndCapture without a capture");
  const std::shared_ptr<CudaCapture> capture = std::exchange(capture_, nullptr);
  for (const Lane& lane : lanes_) lane.stream->EndCapture();
  // All of it even when the capture went wrong: the end gives the streams back.
  const absl::Status entered = context().Enter();
  const absl::Status joined = Join();
  CUgraph graph = nullptr;
  const absl::Status ended = Check(
      context().driver().StreamEndCapture(lanes_[0].stream->native(), &graph), "ending a capture");
  absl::Status status;
  for (const absl::Status& s : {capture->refusal, entered, joined, ended}) status.Update(s);
  if (status.ok()) status = Instantiate(graph);
  if (graph != nullptr) context().driver().GraphDestroy(graph);
  return status;
}

absl::Status CudaGraph::Instantiate(CUgraph graph) {
  CUgraphExec executable = nullptr;
  MILLRACE_RETURN_IF_ERROR(
      Check(context().driver().GraphInstantiateWithFlags(&executable, graph, 0),
            "preparing a captured graph"));
  graph_ = executable;
  return absl::OkStatus();
}

absl::Status CudaGraph::Launch() {
  if (graph_ == nullptr) return UsageError("the graph was not captured");
  MILLRACE_RETURN_IF_ERROR(context().Enter());
  MILLRACE_RETURN_IF_ERROR(Join());
  MILLRACE_RETURN_IF_ERROR(Check(context().driver().GraphLaunch(graph_, lanes_[0].stream->native()),
                                 "replaying a graph"));
  return Fork();
}

}  // namespace millrace
