#include "tests/cuda_sim/cuda_sim.h"

#include <cstdio>
#include <cstdlib>

#include "graph/assert.h"
#include "graph/strings.h"
#include "tests/cuda_sim/sim_state.h"

namespace millrace {
namespace {

constexpr char kModuleImage[] = "millrace simulated kernels";

std::vector<std::string> ListLeaks(sim::State& state) {
  std::vector<std::string> leaks;
  for (size_t i = 0; i < state.contexts.size(); ++i) {
    if (const int n = state.contexts[i].retained; n != 0) {
      leaks.push_back(StrCat("leak: the primary context of device ", i, " is retained ", n,
                             " times more than released"));
    }
  }
  for (const sim::Allocation* a : state.memory.Live()) {
    leaks.push_back(StrCat("leak: ", state.memory.Describe(a->range), " was not freed"));
  }
  auto count = [&](size_t n, const char* what) {
    if (n > 0) leaks.push_back(StrCat("leak: ", n, " ", what, " not destroyed"));
  };
  count(state.streams.size(), "streams");
  count(state.events.size(), "events");
  count(state.graphs.size(), "graphs");
  count(state.graph_execs.size(), "executable graphs");
  count(state.modules.size(), "modules");
  std::erase_if(leaks, [&](const std::string& leak) { return state.forgiven.contains(leak); });
  return leaks;
}

}  // namespace

CudaSim::CudaSim(const CudaSimOptions& options) : state_(std::make_unique<sim::State>(options)) {
  MILLRACE_CHECK(sim::CurrentState() == nullptr);  // one at a time
  sim::SetCurrentState(state_.get());
}

CudaSim::~CudaSim() {
  std::vector<std::string> found;
  {
    sim::Scheduler::Lock lock(state_->mutex);
    state_->scheduler.DrainAll(lock);
    found = state_->violations;
    for (std::string& leak : ListLeaks(*state_)) found.push_back(std::move(leak));
  }
  state_->scheduler.Stop();
  sim::SetCurrentState(nullptr);
  if (found.empty()) return;
  for (const std::string& message : found) std::fprintf(stderr, "CudaSim: %s\n", message.c_str());
  std::abort();
}

const CudaDriver& CudaSim::driver() const {
  static const CudaDriver table = [] {
    CudaDriver driver;
    sim::AddDeviceEntries(driver);
    sim::AddMemoryEntries(driver);
    sim::AddStreamEntries(driver);
    sim::AddGraphEntries(driver);
    sim::AddKernelEntries(driver);
    return driver;
  }();
  return table;
}

std::vector<std::string> CudaSim::TakeViolations() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->violations, {});
}

std::vector<std::string> CudaSim::Leaks() const {
  std::lock_guard lock(state_->mutex);
  return ListLeaks(*state_);
}

void CudaSim::ForgiveLeaks() {
  std::lock_guard lock(state_->mutex);
  for (std::string& leak : ListLeaks(*state_)) state_->forgiven.insert(std::move(leak));
}

void CudaSim::FailCall(std::string_view entry, int64_t nth, CUresult result) {
  std::lock_guard lock(state_->mutex);
  state_->faults.push_back({std::string(entry), nth, result});
}

void CudaSim::FailAnyCall(int64_t nth, CUresult result) { FailCall("", nth, result); }

void CudaSim::LoseDevice(int ordinal, CUresult result) {
  std::lock_guard lock(state_->mutex);
  state_->scheduler.LoseDevice(ordinal, result);
}

int64_t CudaSim::CountCalls(std::string_view entry) const {
  std::lock_guard lock(state_->mutex);
  auto it = state_->calls.find(entry);
  return it == state_->calls.end() ? 0 : it->second;
}

int64_t CudaSim::CountCalls() const {
  std::lock_guard lock(state_->mutex);
  return state_->all_calls;
}

void CudaSim::RegisterKernel(std::string name, SimKernel kernel) {
  std::lock_guard lock(state_->mutex);
  state_->kernels[std::move(name)] = std::move(kernel);
}

const void* CudaSim::ModuleImage() { return kModuleImage; }

std::vector<std::string> CudaSim::ExecutionOrder() const {
  std::lock_guard lock(state_->mutex);
  return state_->scheduler.executed();
}

// --- SimLaunch ----------------------------------------------------------------------------------

std::byte* SimLaunch::Map(CUdeviceptr address, int64_t size_bytes, bool write) const {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const size_t at = (last_found_ + i) % accesses_.size();
    const SimAccess& a = accesses_[at];
    const bool inside = address >= a.address && address + static_cast<uint64_t>(size_bytes) <=
                                                    a.address + static_cast<uint64_t>(a.size_bytes);
    if (!inside || a.write != write) continue;
    last_found_ = at;
    return state_->memory.Backing(address);
  }
  std::lock_guard lock(state_->mutex);
  const sim::ByteRange range{address, address + static_cast<uint64_t>(size_bytes)};
  state_->violations.push_back(StrCat("out of bounds: a kernel ", write ? "writes " : "reads ",
                                      state_->memory.Describe(range),
                                      " outside the ranges it declared"));
  return nullptr;
}

const std::byte* SimLaunch::Read(CUdeviceptr address, int64_t size_bytes) const {
  return Map(address, size_bytes, false);
}
std::byte* SimLaunch::Write(CUdeviceptr address, int64_t size_bytes) const {
  return Map(address, size_bytes, true);
}

}  // namespace millrace
