// Entry points for streams, events, flags and host functions.
#include "tests/cuda_sim/sim_state.h"

namespace millrace::sim {
namespace {

CUresult StreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  constexpr char kEntry[] = "StreamCreateWithPriority";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int device) {
    if (flags != CU_STREAM_NON_BLOCKING) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE, StrCat("invalid handle: ", kEntry,
                                                            " of a stream that synchronizes with "
                                                            "the legacy default stream"));
    }
    Stream stream;
    stream.device = device;
    stream.lane = state.scheduler.AddLane(
        device, StrCat("stream ", ++state.streams_made,
                       priority == 0 ? "" : StrCat(" of priority ", priority)));
    *handle = state.streams.Add(std::move(stream));
    return CUDA_SUCCESS;
  });
}

// The frame of entry points of a stream: body(state, lock, stream).
template <typename Body>
CUresult EnterStream(std::string_view entry, CUstream handle, Body body, bool frees = false) {
  return EnterContext(
      entry,
      [&](State& state, Scheduler::Lock& lock, int device) {
        CUresult error = CUDA_SUCCESS;
        Stream* stream = UsableStream(state, entry, handle, device, &error);
        return stream == nullptr ? error : body(state, lock, *stream);
      },
      frees);
}

CUresult StreamDestroy(CUstream handle) {
  return EnterStream(
      "StreamDestroy", handle,
      [&](State& state, Scheduler::Lock&, Stream& stream) {
        if (stream.capture != nullptr) {
          stream.capture->invalid = true;
          state.violations.push_back("capture: StreamDestroy of a stream that is being captured");
        }
        state.streams.Remove(handle);  // what is queued still runs
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

std::optional<CUresult> RefuseWhileCapturing(State& state, std::string_view entry,
                                             const Stream& stream) {
  if (stream.capture == nullptr) return std::nullopt;
  stream.capture->invalid = true;
  return state.Violate(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       StrCat("capture: ", entry, " of a stream that is being captured"));
}

CUresult StreamQuery(CUstream handle) {
  return EnterStream("StreamQuery", handle,
                     [](State& state, Scheduler::Lock& lock, Stream& stream) {
                       if (auto error = RefuseWhileCapturing(state, "StreamQuery", stream)) {
                         return *error;
                       }
                       return state.scheduler.Query(lock, stream.lane);
                     });
}

CUresult StreamSynchronize(CUstream handle) {
  return EnterStream("StreamSynchronize", handle,
                     [](State& state, Scheduler::Lock& lock, Stream& stream) {
                       if (auto error = RefuseWhileCapturing(state, "StreamSynchronize", stream)) {
                         return *error;
                       }
                       return state.scheduler.Drain(lock, stream.lane);
                     });
}

// --- Events -------------------------------------------------------------------------------------

CUresult EventCreate(CUevent* handle, unsigned flags) {
  return EnterContext("EventCreate", [&](State& state, Scheduler::Lock&, int device) {
    if (flags != CU_EVENT_DISABLE_TIMING) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           "invalid handle: EventCreate of an event that takes time stamps, which "
                           "slow streams down");
    }
    Event event;
    event.device = device;
    *handle = state.events.Add(std::move(event));
    return CUDA_SUCCESS;
  });
}

CUresult EventDestroy(CUevent handle) {
  return EnterContext(
      "EventDestroy",
      [&](State& state, Scheduler::Lock&, int) {
        if (state.events.Find(handle) == nullptr) {
          return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                               "invalid handle: EventDestroy of an event that was destroyed or "
                               "never created");
        }
        state.events.Remove(handle);
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

CUresult EventRecord(CUevent handle, CUstream stream_handle) {
  return EnterStream(
      "EventRecord", stream_handle, [&](State& state, Scheduler::Lock& lock, Stream& stream) {
        Event* event = state.events.Find(handle);
        if (event == nullptr || event->device != stream.device) {
          return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                               "invalid handle: EventRecord of an event that was destroyed, never "
                               "created, or of another device than the stream's");
        }
        Op op;
        op.kind = Op::Kind::kRecord;
        op.label = "EventRecord";
        event->capture = stream.capture;
        if (stream.capture == nullptr) {
          op.instance = event->last = std::make_shared<EventInstance>();
          return Issue(state, lock, stream, std::move(op));
        }
        Capture& capture = *stream.capture;
        op.captured_instance = event->captured_instance = capture.graph.instances++;
        const CUresult result = Issue(state, lock, stream, std::move(op));
        capture.instances.push_back(capture.clocks[static_cast<size_t>(stream.capture_lane)]);
        return result;
      });
}

// A wait for an event whose last Record was captured: the stream joins that capture.
CUresult WaitForCaptured(State& state, Scheduler::Lock& lock, CUstream handle, Stream& stream,
                         const Event& event) {
  const std::shared_ptr<Capture>& capture = event.capture;
  if (!capture->active) {
    return state.Violate(CUDA_ERROR_CAPTURED_EVENT,
                         "capture: a wait, outside, for an event that was recorded in a capture");
  }
  if (stream.capture != nullptr && stream.capture != capture) {
    stream.capture->invalid = capture->invalid = true;
    return state.Violate(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                         "capture: a wait for an event of another capture");
  }
  if (stream.capture == nullptr) {
    stream.capture = capture;
    stream.capture_lane = capture->graph.lanes++;
    capture->streams.push_back(handle);
    capture->clocks.emplace_back();
  }
  Op op;
  op.kind = Op::Kind::kWaitEvent;
  op.label = "StreamWaitEvent";
  op.captured_instance = event.captured_instance;
  capture->clocks[static_cast<size_t>(stream.capture_lane)].Join(
      capture->instances[static_cast<size_t>(event.captured_instance)]);
  return Issue(state, lock, stream, std::move(op));
}

CUresult StreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  return EnterStream(
      "StreamWaitEvent", handle, [&](State& state, Scheduler::Lock& lock, Stream& stream) {
        const Event* event = state.events.Find(event_handle);
        if (event == nullptr) {
          return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                               "invalid handle: StreamWaitEvent of an event that was destroyed or "
                               "never created");
        }
        if (event->capture != nullptr) return WaitForCaptured(state, lock, handle, stream, *event);
        if (stream.capture != nullptr) {
          stream.capture->invalid = true;
          return state.Violate(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                               "capture: a wait, in a captured stream, for an event that was "
                               "recorded outside");
        }
        Op op;
        op.kind = Op::Kind::kWaitEvent;
        op.label = "StreamWaitEvent";
        op.instance = event->last;
        return Issue(state, lock, stream, std::move(op));
      });
}

// --- Flags and host functions -------------------------------------------------------------------

CUresult IssueFlag(State& state, Scheduler::Lock& lock, Stream& stream, std::string_view entry,
                   Op::Kind kind, CUdeviceptr address, uint32_t value, unsigned flags) {
  const ByteRange word{address, address + 4};
  if (address % 4 != 0 || state.memory.Find(word).kind != Place::Kind::kAllocated) {
    return state.Violate(CUDA_ERROR_INVALID_VALUE,
                         StrCat("out of bounds: ", entry, " of ", state.memory.Describe(word),
                                ": not a word of device or pinned memory"));
  }
  Op op;
  op.kind = kind;
  op.label = StrCat(entry, " of ", value);
  op.flag = address;
  op.value = value;
  op.flags = flags;
  return Issue(state, lock, stream, std::move(op));
}

CUresult StreamWaitValue32(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return EnterStream("StreamWaitValue32", handle,
                     [&](State& state, Scheduler::Lock& lock, Stream& stream) {
                       return IssueFlag(state, lock, stream, "StreamWaitValue32",
                                        Op::Kind::kWaitFlag, address, value, flags);
                     });
}

CUresult StreamWriteValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                            unsigned flags) {
  return EnterStream("StreamWriteValue32", handle,
                     [&](State& state, Scheduler::Lock& lock, Stream& stream) {
                       return IssueFlag(state, lock, stream, "StreamWriteValue32",
                                        Op::Kind::kWriteFlag, address, value, flags);
                     });
}

CUresult LaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return EnterStream("LaunchHostFunc", handle,
                     [&](State& state, Scheduler::Lock& lock, Stream& stream) {
                       Op op;
                       op.label = "LaunchHostFunc";
                       op.on_host = true;
                       op.run = [function, argument] {
                         InHostFunction() = true;
                         function(argument);
                         InHostFunction() = false;
                         return CUDA_SUCCESS;
                       };
                       return Issue(state, lock, stream, std::move(op));
                     });
}

}  // namespace

void AddStreamEntries(CudaDriver& driver) {
  driver.StreamCreateWithPriority = StreamCreateWithPriority;
  driver.StreamDestroy = StreamDestroy;
  driver.StreamQuery = StreamQuery;
  driver.StreamSynchronize = StreamSynchronize;
  driver.StreamWaitEvent = StreamWaitEvent;
  driver.StreamWaitValue32 = StreamWaitValue32;
  driver.StreamWriteValue32 = StreamWriteValue32;
  driver.LaunchHostFunc = LaunchHostFunc;
  driver.EventCreate = EventCreate;
  driver.EventDestroy = EventDestroy;
  driver.EventRecord = EventRecord;
}

}  // namespace millrace::sim
