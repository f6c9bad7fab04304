// Samples to learn from, and the endless sequence in which training takes them.
//
// Epoch e is a permutation of all samples, drawn from (seed, e) alone; the epochs follow one
// another without a gap, and batch b of size B is places [b B, (b + 1) B) of that sequence. So
// every batch is full, no sample is left out, and what a step sees depends on its number and the
// seed only: training that is resumed sees what it would have seen.
#ifndef MILLRACE_RUNTIME_DATASET_H_
#define MILLRACE_RUNTIME_DATASET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// What samples have for one input of a graph: sample i is `sample.shape` elements of `data`,
// beginning with element first + i * stride. Samples may overlap, as windows of a text do.
struct SampleArray {
  std::string name = {};  // of the input
  Tensor data = {};
  TensorType sample = {};
  int64_t first = 0, stride = 0;
};

struct Dataset {
  int64_t count = 0;
  std::vector<SampleArray> arrays;
};

// The samples of a tensor, along dim 0.
SampleArray SamplesOf(std::string name, const Tensor& tensor);

// Sample which[i] becomes row i of `batch`, which has the array's dtype.
void CopySamples(const SampleArray& array, std::span<const int64_t> which, Tensor& batch);

// The sequence: which of `count` samples is at each place. Not for count = 0. O(count) when it
// enters an epoch.
class ShuffledSequence {
 public:
  ShuffledSequence(int64_t count, uint64_t seed) : count_(count), seed_(seed) {}
  int64_t At(int64_t place);

 private:
  const int64_t count_;
  const uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;  // of epoch_
};

// Batches of the sequence, made ready on a thread of their own, some steps ahead.
class BatchReader {
 public:
  // `samples`: those of the dataset that are used, not empty. Batches from number `first_batch` on.
  // The dataset outlives the reader. OutOfMemoryError where memory or threads are out.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Start(const Dataset& dataset,
                                                            std::vector<int64_t> samples,
                                                            int64_t batch, uint64_t seed,
                                                            int64_t first_batch);
  ~BatchReader();

  // The next batch: a tensor [batch, ...] for each array, which stays as it is until the next call.
  std::span<const Tensor> Next();

 private:
  struct State;
  explicit BatchReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DATASET_H_
