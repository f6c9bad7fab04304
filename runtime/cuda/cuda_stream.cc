#include "runtime/cuda/cuda_stream.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "graph/strings.h"
#include "runtime/strided_copy.h"

namespace millrace {
namespace {

CUdeviceptr AddressOf(Flag& flag) { return reinterpret_cast<CUdeviceptr>(&flag.value); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create(std::shared_ptr<CudaContext> context) {
  MILLRACE_RETURN_IF_ERROR(context->Enter());
  CUevent event = nullptr;
  CUresult r = context->driver().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (r != CUDA_SUCCESS) return context->Error(r, "creating an event");
  return std::unique_ptr<CudaEvent>(new CudaEvent(std::move(context), event));
}

CudaEvent::~CudaEvent() {
  context_->EnterToFree();
  context_->driver().EventDestroy(event_);
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(std::shared_ptr<CudaContext> context,
                                                               const PlanStream& plan,
                                                               int64_t staging_bytes,
                                                               Cancellation& cancellation) {
  MILLRACE_RETURN_IF_ERROR(context->Enter());
  const CudaDriver& driver = context->driver();
  const std::string doing = StrCat("creating stream '", plan.name, "'");
  int least = 0, greatest = 0;  // greatest is the more urgent one: a lower number
  CUresult r = driver.CtxGetStreamPriorityRange(&least, &greatest);
  if (r != CUDA_SUCCESS) return context->Error(r, doing);
  CUstream native = nullptr;
  r = driver.StreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING,
                                      std::clamp(plan.priority, greatest, least));
  if (r != CUDA_SUCCESS) return context->Error(r, doing);

  std::unique_ptr<CudaStream> stream(new CudaStream(context, plan.name, native, cancellation));
  if (staging_bytes > 0) {
    MILLRACE_ASSIGN_OR_RETURN(void* staging, context->AllocatePinned(staging_bytes));
    stream->staging_ = static_cast<std::byte*>(staging);
    stream->staging_bytes_ = staging_bytes;
  }
  return stream;
}

CudaStream::~CudaStream() {
  // A failure that is not sticky leaves work in flight: ask again.
  if (!Drain(/*abandon=*/true).ok()) Drain(/*abandon=*/true).IgnoreError();
  context_->EnterToFree();
  context_->driver().StreamDestroy(stream_);
  if (staging_ != nullptr) context_->FreePinned(staging_);
}

absl::Status CudaStream::Launch(Kernel& kernel, const KernelArgs& args) {
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  KernelArgs bound = args;
  bound.native_stream = stream_;
  return Keep(kernel.Run(bound));
}

absl::Status CudaStream::Copy(const CopyRegion& region) {
  if (region.rows <= 0 || region.row_bytes <= 0) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  const absl::StatusOr<Reach> reach = ReachOf(*context_, region);
  if (!reach.ok()) return Keep(reach.status());
  if (reach->to && reach->from) return Keep(IssueCopy(*context_, stream_, region));
  return CopyWithHost(region, *reach);
}

// One side is out of the GPU's reach. Given such memory, the driver would hold up the issuing
// thread until the stream gets there, and that may depend on what this thread has yet to issue. So
// a host task moves these bytes, in stream order; by way of pinned staging when the other side is
// the GPU's.
absl::Status CudaStream::CopyWithHost(const CopyRegion& region, Reach reach) {
  if (capture_ != nullptr) {
    return Refuse("a copy from or to a scratch file or pageable memory", "it runs on the host");
  }
  if (region.to_space != MemorySpace::kDevice && region.from_space != MemorySpace::kDevice) {
    return IssueHostTask(nullptr, region);
  }
  // Of each pair, the copy between staging and the device is the GPU's.
  bool for_gpu = reach.from;
  return SplitThroughStaging(region, staging_, staging_bytes_, [&](const CopyRegion& piece) {
    const bool gpu = std::exchange(for_gpu, !for_gpu);
    return gpu ? Keep(IssueCopy(*context_, stream_, piece)) : IssueHostTask(nullptr, piece);
  });
}

absl::Status CudaStream::Record(Event& event, uint64_t generation) {
  auto& e = static_cast<CudaEvent&>(event);
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  MILLRACE_RETURN_IF_ERROR(
      Check(context_->driver().EventRecord(e.event_, stream_), "recording an event"));
  e.generation_ = generation;
  e.captured_ = capture_;
  return absl::OkStatus();
}

absl::Status CudaStream::Wait(Event& event, uint64_t generation) {
  auto& e = static_cast<CudaEvent&>(event);
  if (e.generation_ != generation) {
    return Keep(InternalError(
        StrCat(context_->name(), ": stream '", name_, "' waits for generation ", generation,
               " of an event whose last Record was generation ", e.generation_)));
  }
  if (e.captured_ != capture_) {
    return Refuse("waiting for an event",
                  capture_ == nullptr ? "it was recorded inside a captured graph and the wait is "
                                        "outside; waits for captured events go into the same graph"
                                      : "it was recorded before the capture; the graph as a whole "
                                        "must wait for it instead");
  }
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  return Check(context_->driver().StreamWaitEvent(stream_, e.event_, CU_EVENT_WAIT_DEFAULT),
               "waiting for an event");
}

absl::Status CudaStream::Signal(Flag& flag, uint32_t value) {
  if (capture_ != nullptr) {
    return Refuse("signalling a flag", "its value grows with every step, a graph's is fixed");
  }
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  // The default flags fence: writes before are visible to whoever sees the value.
  return Check(context_->driver().StreamWriteValue32(stream_, AddressOf(flag), value,
                                                     CU_STREAM_WRITE_VALUE_DEFAULT),
               "signalling a flag");
}

absl::Status CudaStream::WaitFlag(Flag& flag, uint32_t value) {
  if (capture_ != nullptr) {
    return Refuse("waiting for a flag", "its value grows with every step, a graph's is fixed");
  }
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  MILLRACE_RETURN_IF_ERROR(Check(context_->driver().StreamWaitValue32(
                                     stream_, AddressOf(flag), value, CU_STREAM_WAIT_VALUE_GEQ),
                                 "waiting for a flag"));
  context_->AddFlagWait({this, &cancellation_, &flag, value});
  return absl::OkStatus();
}

absl::Status CudaStream::RunOnHost(HostFunction& function) {
  if (capture_ != nullptr) {
    return Refuse("a function on the host", "the caller owns it only until the next Synchronize");
  }
  MILLRACE_RETURN_IF_ERROR(Keep(context_->Enter()));
  return IssueHostTask(&function, {});
}

absl::Status CudaStream::IssueHostTask(HostFunction* function, const CopyRegion& move) {
  if (tasks_in_flight_ == tasks_.size()) tasks_.emplace_back();
  HostTask& task = tasks_[tasks_in_flight_];
  task = {this, function, move};
  MILLRACE_RETURN_IF_ERROR(Check(context_->driver().LaunchHostFunc(stream_, RunHostTask, &task),
                                 "queueing a function on the host"));
  ++tasks_in_flight_;
  return absl::OkStatus();
}

void CudaStream::RunHostTask(void* argument) {
  auto& task = *static_cast<HostTask*>(argument);
  if (task.stream->cancellation_.requested()) return;
  if (task.function == nullptr) {
    CopyOnHost(task.move);
    return;
  }
  absl::Status status = (*task.function)();
  if (status.ok()) return;
  task.stream->Keep(std::move(status)).IgnoreError();
  task.stream->cancellation_.Request();  // nobody else learns of it before Synchronize
}

absl::Status CudaStream::Synchronize() {
  if (capture_ != nullptr) return Refuse("waiting for the stream to finish", "nothing runs yet");
  absl::Status drained = Keep(Drain(/*abandon=*/false));
  std::lock_guard lock(mutex_);
  return failure_.ok() ? drained : failure_;
}

absl::Status CudaStream::Drain(bool abandon) {
  MILLRACE_RETURN_IF_ERROR(context_->Enter());
  // A stream may wait for one that waits for a flag, so any open wait of the device counts.
  CUresult r = context_->HasFlagWaits() ? PollUntilIdle(abandon)
                                        : context_->driver().StreamSynchronize(stream_);
  if (r != CUDA_SUCCESS) {
    return context_->Error(r, StrCat("running stream '", name_, "'"));
  }
  context_->DropFlagWaits(this);
  tasks_in_flight_ = 0;
  return absl::OkStatus();
}

CUresult CudaStream::PollUntilIdle(bool abandon) {
  constexpr int kSpins = 1000;  // then sleep: about a kernel's time has passed
  for (int polls = 0;; ++polls) {
    CUresult r = context_->driver().StreamQuery(stream_);
    if (r != CUDA_ERROR_NOT_READY) return r;
    if (abandon || cancellation_.requested()) context_->ReleaseFlagWaits(&cancellation_);
    if (polls < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

absl::Status CudaStream::Keep(absl::Status status) {
  if (status.ok()) return status;
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  return status;
}

absl::Status CudaStream::Check(CUresult result, std::string_view doing) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return Keep(context_->Error(result, StrCat(doing, " on stream '", name_, "'")));
}

absl::Status CudaStream::Refuse(std::string_view what, std::string_view reason) {
  absl::Status refusal = UsageError(StrCat(context_->name(), ": stream '", name_, "': ", what,
                                           " cannot be captured into a graph: ", reason));
  if (capture_ == nullptr) return Keep(refusal);
  if (capture_->refusal.ok()) capture_->refusal = refusal;
  return refusal;
}

}  // namespace millrace
