#include "runtime/dataset.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "graph/assert.h"
#include "graph/strings.h"
#include "graph/weights.h"

namespace millrace {
namespace {

// Keys of other streams of the same seed (initial data, Dropout) lack these bits.
constexpr uint32_t kShuffleKey = 0x5f356495;

uint64_t RandomAt(uint64_t seed, int64_t epoch, int64_t i) {
  const auto e = static_cast<uint64_t>(epoch), at = static_cast<uint64_t>(i);
  const std::array<uint32_t, 4> words =
      Philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                  static_cast<uint32_t>(e), static_cast<uint32_t>(e >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ kShuffleKey});
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace

SampleArray SamplesOf(std::string name, const Tensor& tensor) {
  SampleArray array{.name = std::move(name), .data = tensor};
  array.sample.dtype = tensor.dtype();
  for (int d = 1; d < tensor.shape().rank(); ++d) array.sample.shape.push_back(tensor.shape()[d]);
  array.stride = NumElements(array.sample.shape);
  return array;
}

void CopySamples(const SampleArray& array, std::span<const int64_t> which, Tensor& batch) {
  const int64_t size = SizeOf(array.sample.dtype), sample_bytes = ByteSize(array.sample);
  MILLRACE_CHECK(batch.dtype() == array.sample.dtype);
  MILLRACE_CHECK(batch.size_bytes() == sample_bytes * std::ssize(which));
  std::byte* to = batch.mutable_bytes();
  const int64_t last = array.data.num_elements() - NumElements(array.sample.shape);
  for (const int64_t i : which) {
    MILLRACE_CHECK(i >= 0 && array.first + i * array.stride <= last);
    const std::byte* from = array.data.bytes() + (array.first + i * array.stride) * size;
    std::memcpy(to, from, static_cast<size_t>(sample_bytes));
    to += sample_bytes;
  }
}

int64_t ShuffledSequence::At(int64_t place) {
  if (place / count_ != epoch_) {
    epoch_ = place / count_;
    order_.resize(static_cast<size_t>(count_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    for (int64_t i = count_ - 1; i > 0; --i) {  // Fisher and Yates
      const auto j =
          static_cast<int64_t>(RandomAt(seed_, epoch_, i) % static_cast<uint64_t>(i + 1));
      std::swap(order_[static_cast<size_t>(i)], order_[static_cast<size_t>(j)]);
    }
  }
  return order_[static_cast<size_t>(place % count_)];
}

// A ring of batches. The thread fills those that are free; the caller holds one at a time.
struct BatchReader::State {
  State(const Dataset& d, std::vector<int64_t> s, int64_t b, uint64_t seed, int64_t first_batch)
      : dataset(d),
        samples(std::move(s)),
        batch(b),
        sequence(std::ssize(samples), seed),
        place(first_batch * b) {}

  void Fill(std::vector<Tensor>& tensors) {
    for (int64_t& i : which) i = samples[static_cast<size_t>(sequence.At(place++))];
    for (size_t a = 0; a < tensors.size(); ++a) {
      CopySamples(dataset.arrays[a], which, tensors[a]);
    }
  }

  void Serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopped || filled - taken < std::ssize(ring); });
      if (stopped) return;
      std::vector<Tensor>& slot = ring[static_cast<size_t>(filled % std::ssize(ring))];
      lock.unlock();
      Fill(slot);
      lock.lock();
      ++filled;
      changed.notify_all();
    }
  }

  const Dataset& dataset;
  const std::vector<int64_t> samples;
  const int64_t batch;
  ShuffledSequence sequence;
  int64_t place;
  std::vector<int64_t> which;             // samples of the batch being filled
  std::vector<std::vector<Tensor>> ring;  // one tensor an array

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  int64_t filled = 0;  // batches so far
  int64_t taken = 0;   // and given back: the caller holds batch `taken`, once it has any
  bool holds = false;
  bool stopped = false;
  std::thread thread;
};

BatchReader::BatchReader(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Start(const Dataset& dataset,
                                                                std::vector<int64_t> samples,
                                                                int64_t batch, uint64_t seed,
                                                                int64_t first_batch) {
  constexpr int kBatchesAhead = 4;
  MILLRACE_CHECK(!samples.empty());
  auto state = std::make_unique<State>(dataset, std::move(samples), batch, seed, first_batch);
  state->which.resize(static_cast<size_t>(batch));
  state->ring.resize(kBatchesAhead);
  for (std::vector<Tensor>& slot : state->ring) {
    for (const SampleArray& array : dataset.arrays) {
      TensorType type{array.sample.dtype, {batch}};
      for (const int64_t dim : array.sample.shape.dims()) type.shape.push_back(dim);
      MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
      slot.push_back(std::move(tensor));
    }
  }
  try {
    state->thread = std::thread([s = state.get()] { s->Serve(); });
  } catch (const std::system_error& error) {  // the standard library's only way to say no
    return OutOfMemoryError(StrCat("cannot start a thread to read ahead: ", error.what()));
  }
  return std::unique_ptr<BatchReader>(new BatchReader(std::move(state)));
}

BatchReader::~BatchReader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

std::span<const Tensor> BatchReader::Next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.holds) {
    ++s.taken;
    s.changed.notify_all();
  }
  s.holds = true;
  s.changed.wait(lock, [&] { return s.filled > s.taken; });
  return s.ring[static_cast<size_t>(s.taken % std::ssize(s.ring))];
}

}  // namespace millrace
