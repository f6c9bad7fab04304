#include "tests/cuda_sim/sim_state.h"

#include <algorithm>

namespace millrace::sim {
namespace {

State* current_state = nullptr;

}  // namespace

State::State(const CudaSimOptions& o)
    : options(o),
      memory(o.devices, o.memory_bytes, o.pinned_bytes),
      scheduler({.devices = o.devices,
                 .seed = o.seed,
                 .quiet_seconds = o.quiet_seconds,
                 .stall_seconds = o.stall_seconds},
                mutex, memory, violations) {
  for (int i = 0; i < o.devices; ++i) {
    Context context;
    context.handle = reinterpret_cast<CUcontext>(0x7'0000'0000 + 16 * static_cast<uint64_t>(i));
    contexts.push_back(std::move(context));
  }
}

CUresult State::Violate(CUresult result, std::string message) {
  violations.push_back(std::move(message));
  return result;
}

std::optional<int> State::CurrentDevice() const {
  for (size_t i = 0; i < contexts.size(); ++i) {
    if (contexts[i].handle == ThreadContext() && contexts[i].retained > 0) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

std::optional<CUresult> State::ForbiddenInCapture(std::string_view entry) {
  for (const std::shared_ptr<Capture>& capture : captures) {
    const bool forbids = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                         (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
                          capture->thread == std::this_thread::get_id());
    if (!forbids) continue;
    capture->invalid = true;
    return Violate(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   StrCat("capture: ", entry, " while a stream is being captured"));
  }
  return std::nullopt;
}

State* CurrentState() { return current_state; }
void SetCurrentState(State* state) { current_state = state; }

bool& InHostFunction() {
  thread_local bool inside = false;
  return inside;
}

CUcontext& ThreadContext() {
  thread_local CUcontext context = nullptr;
  return context;
}

std::optional<CUresult> CountCall(State& state, std::string_view entry) {
  state.scheduler.NoteCall();
  if (InHostFunction()) {
    return state.Violate(CUDA_ERROR_NOT_PERMITTED,
                         StrCat("invalid handle: ", entry, " called from a host function"));
  }
  const int64_t calls = ++state.calls[std::string(entry)];
  const int64_t all_calls = ++state.all_calls;
  for (const Fault& fault : state.faults) {
    const bool hit =
        fault.entry.empty() ? fault.nth == all_calls : fault.entry == entry && fault.nth == calls;
    if (!hit) continue;
    for (const auto& capture : state.captures) capture->invalid = true;  // it lacks this call
    if (IsStickyCudaError(fault.result)) {
      state.scheduler.LoseDevice(state.CurrentDevice().value_or(0), fault.result);
    }
    return fault.result;
  }
  return std::nullopt;
}

Stream* UsableStream(State& state, std::string_view entry, CUstream handle, int device,
                     CUresult* error) {
  Stream* stream = state.streams.Find(handle);
  if (stream != nullptr && stream->device == device) return stream;
  const char* why = handle == nullptr ? " on the legacy default stream"
                    : stream == nullptr
                        ? " on a stream that was destroyed or never created"
                        : " on a stream of another device than the current context's";
  *error = state.Violate(CUDA_ERROR_INVALID_HANDLE, StrCat("invalid handle: ", entry, why));
  return nullptr;
}

CUresult Issue(State& state, Scheduler::Lock& lock, Stream& stream, Op op) {
  if (stream.capture != nullptr) {
    Capture& capture = *stream.capture;
    Clock& clock = capture.clocks[static_cast<size_t>(stream.capture_lane)];
    clock.Set(stream.capture_lane, clock.at(stream.capture_lane) + 1);
    capture.graph.ops.push_back({stream.capture_lane, std::move(op)});
    return CUDA_SUCCESS;
  }
  state.scheduler.Push(stream.lane, std::move(op));
  state.scheduler.RunAhead(lock);
  return CUDA_SUCCESS;
}

}  // namespace millrace::sim
