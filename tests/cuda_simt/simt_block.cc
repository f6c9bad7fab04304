// Each thread of a block is a fiber (ucontext) with a small stack of its own. A fiber runs until it
// comes to a barrier or a shuffle, or ends; then the next one runs. When all of a warp wait in a
// shuffle their values change hands; when all of the block wait at the barrier they go on.
#include "tests/cuda_simt/simt_block.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr unsigned kLanes = 32;

enum class FiberState : uint8_t { kReady, kAtBarrier, kInExchange, kDone };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  FiberState state = FiberState::kReady;
  SimtThread thread;
  // kInExchange:
  unsigned mask = 0, bytes = 0, source = 0;
  const void* from = nullptr;
  void* to = nullptr;
};

class BlockRunner {
 public:
  absl::Status Run(uint32_t block, uint32_t blocks, uint32_t threads, SimtOrder order,
                   absl::FunctionRef<void()> kernel) {
    kernel_ = &kernel;
    threads_ = threads;
    Start(block, blocks);
    while (live_ > 0) {
      for (uint32_t i = 0; i < threads_; ++i) {
        Resume(order == SimtOrder::kForward ? i : threads_ - 1 - i);
      }
      if (live_ == 0) break;
      bool moved = false;
      for (uint32_t first = 0; first < threads_; first += kLanes) moved |= ExchangeWarp(first);
      moved |= ReleaseBarrier();
      if (!moved) return Stuck(block);
    }
    return absl::OkStatus();
  }

  const SimtThread* self() const { return &current_->thread; }

  void WaitAtBarrier() {
    current_->state = FiberState::kAtBarrier;
    swapcontext(&current_->context, &scheduler_);
  }

  void WaitInExchange(unsigned mask, const void* from, void* to, unsigned bytes, unsigned source) {
    Fiber& fiber = *current_;
    fiber.mask = mask;
    fiber.from = from;
    fiber.to = to;
    fiber.bytes = bytes;
    fiber.source = source;
    fiber.state = FiberState::kInExchange;
    swapcontext(&fiber.context, &scheduler_);
  }

 private:
  static void Enter();

  void Start(uint32_t block, uint32_t blocks) {
    while (fibers_.size() < threads_) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->stack = std::make_unique<char[]>(kStackBytes);
    }
    for (uint32_t i = 0; i < threads_; ++i) {
      Fiber& fiber = *fibers_[i];
      fiber.thread = {{i, 0, 0}, {block, 0, 0}, {threads_, 1, 1}, {blocks, 1, 1}};
      fiber.state = FiberState::kReady;
      MILLRACE_CHECK(getcontext(&fiber.context) == 0);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, Enter, 0);
    }
    live_ = threads_;
  }

  void Resume(uint32_t i) {
    current_ = fibers_[i].get();
    if (current_->state != FiberState::kReady) return;
    swapcontext(&scheduler_, &current_->context);
  }

  // All lanes that the masks name must have come, with the same mask and size.
  bool ExchangeWarp(uint32_t first) {
    const uint32_t lanes = std::min(kLanes, threads_ - first);
    const Fiber& one = *fibers_[first];
    if (one.mask >> (lanes - 1) >> 1 != 0 && lanes < kLanes && one.mask != ~0u) return false;
    for (uint32_t i = 0; i < lanes; ++i) {
      const Fiber& fiber = *fibers_[first + i];
      if (fiber.state != FiberState::kInExchange || fiber.bytes != one.bytes ||
          fiber.mask != one.mask || (fiber.mask >> i & 1) == 0 || fiber.source >= lanes) {
        return false;
      }
    }
    std::vector<char> values(size_t{lanes} * one.bytes);
    for (uint32_t i = 0; i < lanes; ++i) {
      std::memcpy(&values[size_t{i} * one.bytes], fibers_[first + i]->from, one.bytes);
    }
    for (uint32_t i = 0; i < lanes; ++i) {
      Fiber& fiber = *fibers_[first + i];
      std::memcpy(fiber.to, &values[size_t{fiber.source} * one.bytes], one.bytes);
      fiber.state = FiberState::kReady;
    }
    return true;
  }

  bool ReleaseBarrier() {
    for (uint32_t i = 0; i < threads_; ++i) {
      if (fibers_[i]->state != FiberState::kAtBarrier) return false;
    }
    for (uint32_t i = 0; i < threads_; ++i) fibers_[i]->state = FiberState::kReady;
    return true;
  }

  absl::Status Stuck(uint32_t block) const {
    int64_t counts[4] = {};
    for (uint32_t i = 0; i < threads_; ++i) ++counts[static_cast<size_t>(fibers_[i]->state)];
    return InternalError(StrCat("block ", block, " cannot go on: of its threads ", counts[1],
                                " wait at a barrier, ", counts[2], " in a shuffle, ", counts[3],
                                " left"));
  }

  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  absl::FunctionRef<void()>* kernel_ = nullptr;
  uint32_t threads_ = 0, live_ = 0;
};

BlockRunner& TheRunner() {
  static BlockRunner runner;
  return runner;
}

void BlockRunner::Enter() {
  BlockRunner& runner = TheRunner();
  (*runner.kernel_)();
  runner.current_->state = FiberState::kDone;
  --runner.live_;
}

}  // namespace

const SimtApi& SimtRuntime() {
  static constexpr SimtApi kApi = {
      .self = [] { return TheRunner().self(); },
      .barrier = [] { TheRunner().WaitAtBarrier(); },
      .exchange =
          [](unsigned mask, const void* from, void* to, unsigned bytes, unsigned source) {
            TheRunner().WaitInExchange(mask, from, to, bytes, source);
          },
  };
  return kApi;
}

absl::Status RunSimtGrid(uint32_t blocks, uint32_t threads, SimtOrder order,
                         absl::FunctionRef<void()> kernel) {
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t block = order == SimtOrder::kForward ? i : blocks - 1 - i;
    MILLRACE_RETURN_IF_ERROR(TheRunner().Run(block, blocks, threads, order, kernel));
  }
  return absl::OkStatus();
}

}  // namespace millrace
