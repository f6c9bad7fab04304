// Entry points for capture and replay. A captured graph is the list of operations that were issued
// to each stream, its Records and Waits included; a replay issues them again to queues of its own,
// which wait for the launching stream and which that stream waits for.
#include "tests/cuda_sim/sim_state.h"

namespace millrace::sim {
namespace {

CUresult StreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  constexpr char kEntry[] = "StreamBeginCapture";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock&, int device) {
    CUresult error = CUDA_SUCCESS;
    Stream* stream = UsableStream(state, kEntry, handle, device, &error);
    if (stream == nullptr) return error;
    if (stream->capture != nullptr) {
      return state.Violate(CUDA_ERROR_ILLEGAL_STATE,
                           "capture: StreamBeginCapture of a stream that is being captured");
    }
    auto capture = std::make_shared<Capture>();
    capture->origin = handle;
    capture->thread = std::this_thread::get_id();
    capture->mode = mode;
    capture->streams = {handle};
    capture->clocks.resize(1);
    capture->graph.lanes = 1;
    stream->capture = capture;
    stream->capture_lane = 0;
    state.captures.push_back(std::move(capture));
    return CUDA_SUCCESS;
  });
}

void Finish(State& state, Capture& capture) {
  capture.active = false;
  for (CUstream handle : capture.streams) {
    if (Stream* stream = state.streams.Find(handle)) stream->capture = nullptr;
  }
  std::erase_if(state.captures, [](const std::shared_ptr<Capture>& c) { return !c->active; });
}

// Whether all that was captured comes before the end of the origin.
bool IsJoined(const Capture& capture) {
  for (size_t lane = 1; lane < capture.clocks.size(); ++lane) {
    const int i = static_cast<int>(lane);
    if (capture.clocks[0].at(i) < capture.clocks[lane].at(i)) return false;
  }
  return true;
}

CUresult StreamEndCapture(CUstream handle, CUgraph* graph) {
  constexpr char kEntry[] = "StreamEndCapture";
  return EnterContext(
      kEntry,
      [&](State& state, Scheduler::Lock&, int device) {
        CUresult error = CUDA_SUCCESS;
        Stream* stream = UsableStream(state, kEntry, handle, device, &error);
        if (stream == nullptr) return error;
        const std::shared_ptr<Capture> capture = stream->capture;
        if (capture == nullptr) {
          return state.Violate(CUDA_ERROR_ILLEGAL_STATE,
                               "capture: StreamEndCapture of a stream that is not being captured");
        }
        if (capture->origin != handle) {
          capture->invalid = true;
          return state.Violate(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                               "capture: StreamEndCapture of a stream that only joined it");
        }
        if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
            capture->thread != std::this_thread::get_id()) {
          return state.Violate(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                               "capture: StreamEndCapture on another thread");
        }
        Finish(state, *capture);
        if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (!IsJoined(*capture)) {
          return state.Violate(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                               "capture: a captured stream did not join the first one");
        }
        *graph = state.graphs.Add(capture->graph);
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

CUresult GraphInstantiateWithFlags(CUgraphExec* executable, CUgraph handle,
                                   unsigned long long flags) {
  return EnterContext("GraphInstantiateWithFlags", [&](State& state, Scheduler::Lock&, int device) {
    const CapturedGraph* graph = state.graphs.Find(handle);
    if (graph == nullptr || flags != 0) {
      return state.Violate(CUDA_ERROR_INVALID_VALUE,
                           "invalid handle: an instantiation of a graph that was destroyed or "
                           "never captured, or with flags");
    }
    GraphExec exec;
    exec.device = device;
    exec.graph = *graph;
    const int number = ++state.graphs_made;
    for (int i = 0; i < graph->lanes; ++i) {
      exec.lanes.push_back(
          state.scheduler.AddLane(device, StrCat("stream ", i + 1, " of graph ", number)));
    }
    *executable = state.graph_execs.Add(std::move(exec));
    return CUDA_SUCCESS;
  });
}

Op EventOp(Op::Kind kind, const char* label, std::shared_ptr<EventInstance> instance) {
  Op op;
  op.kind = kind;
  op.label = label;
  op.instance = std::move(instance);
  return op;
}

void Replay(Scheduler& scheduler, const GraphExec& exec, int lane) {
  auto fork = std::make_shared<EventInstance>();
  scheduler.Push(lane, EventOp(Op::Kind::kRecord, "start of a graph", fork));
  for (int own : exec.lanes) {
    scheduler.Push(own, EventOp(Op::Kind::kWaitEvent, "start of a graph", fork));
  }
  std::vector<std::shared_ptr<EventInstance>> instances(static_cast<size_t>(exec.graph.instances));
  for (const CapturedOp& captured : exec.graph.ops) {
    Op op = captured.op;
    if (op.captured_instance >= 0) {
      auto& instance = instances[static_cast<size_t>(op.captured_instance)];
      if (op.kind == Op::Kind::kRecord) instance = std::make_shared<EventInstance>();
      op.instance = instance;
    }
    scheduler.Push(exec.lanes[static_cast<size_t>(captured.lane)], std::move(op));
  }
  for (int own : exec.lanes) {
    auto join = std::make_shared<EventInstance>();
    scheduler.Push(own, EventOp(Op::Kind::kRecord, "end of a graph", join));
    scheduler.Push(lane, EventOp(Op::Kind::kWaitEvent, "end of a graph", join));
  }
}

CUresult GraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  constexpr char kEntry[] = "GraphLaunch";
  return EnterContext(kEntry, [&](State& state, Scheduler::Lock& lock, int device) {
    CUresult error = CUDA_SUCCESS;
    Stream* stream = UsableStream(state, kEntry, stream_handle, device, &error);
    if (stream == nullptr) return error;
    const GraphExec* exec = state.graph_execs.Find(handle);
    if (exec == nullptr || exec->device != device) {
      return state.Violate(CUDA_ERROR_INVALID_HANDLE,
                           "invalid handle: GraphLaunch of a graph that was destroyed, never "
                           "instantiated, or of another device");
    }
    if (stream->capture != nullptr) {
      stream->capture->invalid = true;
      return state.Violate(CUDA_ERROR_NOT_SUPPORTED, "capture: GraphLaunch in a captured stream");
    }
    Replay(state.scheduler, *exec, stream->lane);
    state.scheduler.RunAhead(lock);
    return CUDA_SUCCESS;
  });
}

template <typename Handle, typename Table>
CUresult Destroy(std::string_view entry, Handle handle, Table table) {
  return EnterContext(
      entry,
      [&](State& state, Scheduler::Lock&, int) {
        if ((state.*table).Find(handle) == nullptr) {
          return state.Violate(
              CUDA_ERROR_INVALID_VALUE,
              StrCat("invalid handle: ", entry, " of a graph that was destroyed or never made"));
        }
        (state.*table).Remove(handle);
        return CUDA_SUCCESS;
      },
      /*frees=*/true);
}

CUresult GraphDestroy(CUgraph graph) { return Destroy("GraphDestroy", graph, &State::graphs); }
CUresult GraphExecDestroy(CUgraphExec exec) {
  return Destroy("GraphExecDestroy", exec, &State::graph_execs);
}

}  // namespace

void AddGraphEntries(CudaDriver& driver) {
  driver.StreamBeginCapture = StreamBeginCapture;
  driver.StreamEndCapture = StreamEndCapture;
  driver.GraphInstantiateWithFlags = GraphInstantiateWithFlags;
  driver.GraphLaunch = GraphLaunch;
  driver.GraphExecDestroy = GraphExecDestroy;
  driver.GraphDestroy = GraphDestroy;
}

}  // namespace millrace::sim
