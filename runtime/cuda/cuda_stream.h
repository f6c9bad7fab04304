// Streams and events of a cuda device.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_STREAM_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_STREAM_H_

#include <deque>
#include <memory>
#include <mutex>

#include "graph/status.h"
#include "runtime/cuda/cuda_context.h"
#include "runtime/cuda/cuda_copy.h"
#include "runtime/device.h"

namespace millrace {

// A recording in progress on some streams (cuda_graph.h). `refusal` is why it came to nothing.
struct CudaCapture {
  absl::Status refusal;
};

class CudaEvent : public Event {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create(std::shared_ptr<CudaContext> context);
  ~CudaEvent() override;

  CUevent native() const { return event_; }

 private:
  friend class CudaStream;
  CudaEvent(std::shared_ptr<CudaContext> context, CUevent event)
      : context_(std::move(context)), event_(event) {}

  const std::shared_ptr<CudaContext> context_;
  const CUevent event_;
  uint64_t generation_ = 0;                      // of the last Record issued; 0: none
  std::shared_ptr<const CudaCapture> captured_;  // the last Record is part of it; null: none
};

class CudaStream : public Stream {
 public:
  // `staging_bytes` of pinned memory serve copies that the host has a part in; 0 for a stream that
  // makes none.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(std::shared_ptr<CudaContext> context,
                                                            const PlanStream& plan,
                                                            int64_t staging_bytes,
                                                            Cancellation& cancellation);
  // Waits for work in flight, since it uses what the caller is about to free. Flag waits of the run
  // that nobody signalled are released.
  ~CudaStream() override;

  absl::Status Launch(Kernel& kernel, const KernelArgs& args) override;
  absl::Status Copy(const CopyRegion& region) override;
  absl::Status Record(Event& event, uint64_t generation) override;
  absl::Status Wait(Event& event, uint64_t generation) override;
  absl::Status Signal(Flag& flag, uint32_t value) override;
  absl::Status WaitFlag(Flag& flag, uint32_t value) override;
  absl::Status RunOnHost(HostFunction& function) override;
  // When the run is cancelled, open flag waits of the whole device are released so that its streams
  // come to an end; what they computed is worthless then.
  absl::Status Synchronize() override;

  CUstream native() const { return stream_; }
  const std::shared_ptr<CudaContext>& context() const { return context_; }

  // Between the two, what is issued is recorded into a graph and not run. Called by CudaGraph.
  void BeginCapture(std::shared_ptr<CudaCapture> capture) { capture_ = std::move(capture); }
  void EndCapture() { capture_ = nullptr; }
  bool capturing() const { return capture_ != nullptr; }

 private:
  // Work that a host thread of the driver does in stream order: the function, else the move.
  struct HostTask {
    CudaStream* stream = nullptr;
    HostFunction* function = nullptr;
    CopyRegion move;
  };

  CudaStream(std::shared_ptr<CudaContext> context, std::string name, CUstream stream,
             Cancellation& cancellation)
      : context_(std::move(context)),
        name_(std::move(name)),
        stream_(stream),
        cancellation_(cancellation) {}

  static void CUDA_CB RunHostTask(void* task);
  absl::Status IssueHostTask(HostFunction* function, const CopyRegion& move);
  absl::Status CopyWithHost(const CopyRegion& region, Reach reach);
  absl::Status Drain(bool abandon);
  CUresult PollUntilIdle(bool abandon);
  // Keeps the first failure for Synchronize; returns `status`.
  absl::Status Keep(absl::Status status);
  absl::Status Check(CUresult result, std::string_view doing);
  // `what` cannot be part of a graph, because of `reason`.
  absl::Status Refuse(std::string_view what, std::string_view reason);

  const std::shared_ptr<CudaContext> context_;
  const std::string name_;
  const CUstream stream_;
  Cancellation& cancellation_;
  std::byte* staging_ = nullptr;
  int64_t staging_bytes_ = 0;
  std::shared_ptr<CudaCapture> capture_;  // null when not capturing

  // Tasks in flight, at stable addresses; reused after Synchronize, so a steady run allocates none.
  std::deque<HostTask> tasks_;
  size_t tasks_in_flight_ = 0;

  std::mutex mutex_;
  absl::Status failure_;  // guarded by mutex_: the driver's thread sets it too
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_STREAM_H_
