#include "tests/distributed/collective_reference.h"

#include <algorithm>
#include <random>

namespace millrace {
namespace {

double ReduceElement(Reduction reduction, const std::vector<Tensor>& inputs, int64_t i) {
  double result = inputs[0].AsDouble(i);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    const double next = inputs[rank].AsDouble(i);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMean:
        result += next;
        break;
      case Reduction::kProd:
        result *= next;
        break;
      case Reduction::kMax:
        result = std::max(result, next);
        break;
      case Reduction::kMin:
        result = std::min(result, next);
        break;
    }
  }
  return reduction == Reduction::kMean ? result / static_cast<double>(inputs.size()) : result;
}

}  // namespace

std::vector<Tensor> RandomInputs(int ranks, DType dtype, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    Tensor tensor = Tensor::Zeros({dtype, {count}});
    for (int64_t i = 0; i < count; ++i) tensor.Set(i, random() % 5);
    inputs.push_back(tensor);
  }
  return inputs;
}

Tensor Expected(const CollectiveSpec& spec, const std::vector<Tensor>& inputs, int rank) {
  const int64_t ranks = static_cast<int64_t>(inputs.size());
  const int64_t share = spec.count / ranks;
  const int64_t size = spec.kind == CommKind::kAllGather       ? spec.count * ranks
                       : spec.kind == CommKind::kReduceScatter ? share
                                                               : spec.count;
  Tensor result = Tensor::Zeros({spec.dtype, {size}});
  for (int64_t i = 0; i < size; ++i) {
    switch (spec.kind) {
      case CommKind::kAllReduce:
        result.Set(i, ReduceElement(spec.reduction, inputs, i));
        break;
      case CommKind::kReduceScatter:
        result.Set(i, ReduceElement(spec.reduction, inputs, rank * share + i));
        break;
      case CommKind::kAllGather:
        result.Set(i, inputs[i / spec.count].AsDouble(i % spec.count));
        break;
      case CommKind::kAllToAll:
        result.Set(i, inputs[i / share].AsDouble(rank * share + i % share));
        break;
      default:
        result.Set(i, inputs[spec.root].AsDouble(i));
        break;
    }
  }
  return result;
}

}  // namespace millrace
