#include "tools/train_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "graph/diagnostics.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "runtime/csv_reader.h"
#include "runtime/npz_reader.h"
#include "tools/value_spec.h"

namespace millrace {
namespace {

// What one sample has for an input.
TensorType SampleType(const Value& input) {
  TensorType type{input.type.dtype, {}};
  for (int d = 1; d < input.type.shape.rank(); ++d) type.shape.push_back(input.type.shape[d]);
  return type;
}

const Value* FindInput(const DataInputs& inputs, std::string_view name) {
  for (const ValueId id : inputs.graph->inputs) {
    if (inputs.graph->value(id).name == name) return &inputs.graph->value(id);
  }
  return nullptr;
}

std::vector<std::string> InputNames(const DataInputs& inputs) {
  std::vector<std::string> names;
  for (const ValueId id : inputs.graph->inputs) names.push_back(inputs.graph->value(id).name);
  return names;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) StrAppend(&text, text.empty() ? "'" : ", '", name, "'");
  return text;
}

// The one input that is not the target; UsageError when there are several, or none.
absl::StatusOr<const Value*> OnlyInput(const DataInputs& inputs, const std::string& file) {
  const Value* only = nullptr;
  for (const std::string& name : InputNames(inputs)) {
    if (name == inputs.target && inputs.graph->inputs.size() > 1) continue;
    if (only != nullptr) {
      return UsageError(StrCat("'", file, "' is for one input, but the graph has ",
                               Joined(InputNames(inputs)), "; name the data of each: NAME=@FILE"));
    }
    only = FindInput(inputs, name);
  }
  return only;
}

absl::Status NoSample(std::string_view where) {
  return BadInputError(StrCat(where, ": there is no sample in it"));
}

// Whether element i is in `converted` what it is in `tensor`, but for what floats round.
bool IsKept(const Tensor& tensor, const Tensor& converted, int64_t i) {
  const double was = tensor.AsDouble(i), is = converted.AsDouble(i);
  if (IsFloat(converted.dtype())) return std::isfinite(is) || !std::isfinite(was);
  // Beyond 2^53 doubles are too coarse to tell.
  return is == was && (IsFloat(tensor.dtype()) ? std::abs(was) < 0x1p53
                                               : converted.AsInt64(i) == tensor.AsInt64(i));
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  const double value = tensor.AsDouble(i);
  const bool exact = std::floor(value) == value && std::abs(value) < 0x1p63;
  return exact ? StrCat(tensor.AsInt64(i)) : StrCat(value);
}

// The elements as `input` has them; BadInputError with the row where they would be others.
absl::StatusOr<Tensor> Converted(const Tensor& tensor, const Value& input, std::string_view where) {
  const DType dtype = input.type.dtype;
  if (tensor.dtype() == dtype) return tensor;
  MILLRACE_ASSIGN_OR_RETURN(Tensor converted, Tensor::Allocate({dtype, tensor.shape()}));
  const int64_t rows = std::max<int64_t>(1, tensor.shape()[0]);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double value = tensor.AsDouble(i);
    converted.Set(i, value);
    if (IsKept(tensor, converted, i)) continue;
    const std::string row =
        StrCat(where, ", row ", i / (tensor.num_elements() / rows), ": ", ElementText(tensor, i));
    if (IsInteger(dtype) && std::floor(value) != value) {
      return BadInputError(StrCat(row, " is no integer, as input '", input.name, "' needs"));
    }
    return BadInputError(
        StrCat(row, " does not fit into input '", input.name, "', which is ", DTypeName(dtype)));
  }
  return converted;
}

// `tensor` has a row for each sample.
absl::StatusOr<SampleArray> ArrayFor(const Value& input, const Tensor& tensor,
                                     std::string_view where) {
  const TensorType sample = SampleType(input);
  const int64_t rows = tensor.shape().rank() == 0 ? 0 : tensor.shape()[0];
  if (tensor.shape().rank() == 0 || tensor.num_elements() != rows * NumElements(sample.shape)) {
    return BadInputError(StrCat(where, " is ", ToString(tensor.type()), ", but input '", input.name,
                                "' needs [samples", sample.shape.rank() > 0 ? ", ..." : "",
                                "] with ", NumElements(sample.shape), " elements a sample, for ",
                                ToString(sample)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Tensor data, Converted(tensor, input, where));
  SampleArray array = SamplesOf(input.name, data);
  array.sample = sample;
  array.stride = NumElements(sample.shape);
  return array;
}

// Every array of a dataset has a row for each sample.
absl::Status AddArray(SampleArray array, std::string_view where, Dataset& dataset) {
  const int64_t rows = array.data.shape()[0];
  if (!dataset.arrays.empty() && rows != dataset.count) {
    return BadInputError(StrCat(where, " has ", rows, " samples, '", dataset.arrays[0].name,
                                "' has ", dataset.count));
  }
  dataset.count = rows;
  dataset.arrays.push_back(std::move(array));
  return absl::OkStatus();
}

absl::Status CheckLabels(const SampleArray& labels, int64_t classes, std::string_view where) {
  for (int64_t i = 0; i < labels.data.num_elements(); ++i) {
    const int64_t label = labels.data.AsInt64(i);
    if (label >= 0 && label < classes) continue;
    const int64_t row = labels.stride > 0 ? (i - labels.first) / labels.stride : 0;
    return BadInputError(StrCat(where, ", row ", row, ": label ", label,
                                " is no class; the model has ", classes, ", from 0 to ",
                                classes - 1));
  }
  return absl::OkStatus();
}

// --- One file for all inputs --------------------------------------------------------------------

absl::StatusOr<Dataset> ReadTable(const std::string& path, const DataInputs& inputs) {
  MILLRACE_ASSIGN_OR_RETURN(const Value* input, OnlyInput(inputs, path));
  const Value* target = FindInput(inputs, inputs.target);
  const auto width = [](const Value& value) { return NumElements(SampleType(value).shape); };
  const bool own_target = target != nullptr && input != target;
  const int64_t wanted = width(*input) + (own_target ? width(*target) : 0);
  MILLRACE_ASSIGN_OR_RETURN(const int64_t columns, CountCsvColumns(path));
  if (columns == 0) return NoSample(StrCat("'", path, "'"));
  if (columns != wanted) {
    return BadInputError(
        StrCat("'", path, "' has ", columns, " columns, but ", wanted,
               " are needed: ", width(*input), " for input '", input->name, "'",
               own_target ? StrCat(", then ", width(*target), " for '", target->name, "'") : "",
               "; or name them: NAME=@FILE:FIRST-LAST"));
  }
  Dataset dataset;
  int first = 0;
  std::vector<const Value*> values = {input};
  if (own_target) values.push_back(target);
  for (const Value* value : values) {
    const int last = first + static_cast<int>(width(*value)) - 1;
    MILLRACE_ASSIGN_OR_RETURN(const Tensor rows, ReadCsv(path, first, last));
    MILLRACE_ASSIGN_OR_RETURN(SampleArray array, ArrayFor(*value, rows, path));
    MILLRACE_RETURN_IF_ERROR(AddArray(std::move(array), path, dataset));
    first = last + 1;
  }
  return dataset;
}

absl::StatusOr<std::vector<SampleArray>> ReadText(const std::string& path,
                                                  const DataInputs& inputs) {
  MILLRACE_ASSIGN_OR_RETURN(const Value* input, OnlyInput(inputs, path));
  const Value* target = FindInput(inputs, inputs.target);
  const TensorType sample = SampleType(*input), next = SampleType(target ? *target : *input);
  const bool text = IsInteger(sample.dtype) && sample.shape.rank() == 1 && target != nullptr &&
                    input != target && inputs.classes > 0 &&
                    (next.shape == sample.shape || next.shape.rank() == 0);
  if (!text) {
    return UsageError(StrCat("'", path, "' would be text, by its name, but the model does not ",
                             "predict one: input '", input->name, "' is ", ToString(input->type)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, int64_t{1} << 32));
  const int64_t size = std::ssize(bytes), positions = sample.shape[0];
  MILLRACE_ASSIGN_OR_RETURN(Tensor characters, Tensor::Allocate({DType::kU8, {size}}));
  std::ranges::copy(bytes, reinterpret_cast<char*>(characters.mutable_bytes()));
  for (int64_t i = 0; i < size; ++i) {
    if (characters.AsInt64(i) < inputs.classes) continue;
    return BadInputError(StrCat("'", path, "', byte ", i, ": ", characters.AsInt64(i),
                                " is no character of the model, which has ", inputs.classes));
  }
  std::vector<SampleArray> arrays;
  for (const Value* value : {input, target}) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor data, Converted(characters, *value, StrCat("'", path, "'")));
    SampleArray array{.name = value->name, .data = data, .sample = SampleType(*value)};
    array.first = value == input ? 0 : next.shape.rank() == 0 ? positions : 1;
    array.stride = positions;
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// Text: each sample is followed by a byte at least.
int64_t CountText(const std::vector<SampleArray>& arrays) {
  const SampleArray& input = arrays[0];
  return std::max<int64_t>(0, (input.data.num_elements() - 1) / input.stride);
}

absl::StatusOr<Dataset> ReadOneFile(const std::string& path, const DataInputs& inputs) {
  if (absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".csv.gz")) {
    return ReadTable(path, inputs);
  }
  Dataset dataset;
  if (absl::EndsWith(path, ".npz")) {
    for (const std::string& name : InputNames(inputs)) {
      MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, ReadNpz(path, name));
      const std::string where = StrCat("array '", name, "' of '", path, "'");
      MILLRACE_ASSIGN_OR_RETURN(SampleArray array,
                                ArrayFor(*FindInput(inputs, name), tensor, where));
      MILLRACE_RETURN_IF_ERROR(AddArray(std::move(array), where, dataset));
    }
    return dataset;
  }
  if (absl::EndsWith(path, ".npy")) {
    return UsageError(StrCat("'", path, "' is one array; say which input it is for: NAME=@", path));
  }
  MILLRACE_ASSIGN_OR_RETURN(dataset.arrays, ReadText(path, inputs));
  dataset.count = CountText(dataset.arrays);
  return dataset;
}

// --- A file an input ----------------------------------------------------------------------------

absl::StatusOr<Dataset> ReadNamed(std::string_view option, const std::vector<std::string>& specs,
                                  const DataInputs& inputs) {
  std::vector<std::string> missing = InputNames(inputs);
  Dataset dataset;
  for (const std::string& text : specs) {
    MILLRACE_ASSIGN_OR_RETURN(const ValueSpec spec, ParseValueSpec(option, text));
    const auto at = std::find(missing.begin(), missing.end(), spec.name);
    if (at == missing.end()) {
      const std::string hint = DidYouMean(spec.name, missing);
      return UsageError(StrCat(option, " ", text, ": ",
                               FindInput(inputs, spec.name) != nullptr
                                   ? "this input has data already"
                                   : StrCat("no such input; there are ", Joined(InputNames(inputs)),
                                            hint.empty() ? "" : "; ", hint)));
    }
    missing.erase(at);
    MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, ReadValue(option, spec, kMaxBytes));
    const std::string where = StrCat(option, " ", text);
    MILLRACE_ASSIGN_OR_RETURN(SampleArray array,
                              ArrayFor(*FindInput(inputs, spec.name), tensor, where));
    MILLRACE_RETURN_IF_ERROR(AddArray(std::move(array), where, dataset));
  }
  if (!missing.empty()) {
    return UsageError(StrCat(option, ": no data for ", Joined(missing), "; give NAME=@FILE"));
  }
  return dataset;
}

absl::Status CheckInputs(const DataInputs& inputs) {
  for (const ValueId id : inputs.graph->inputs) {
    const Value& input = inputs.graph->value(id);
    if (input.type.shape.rank() > 0 && NumElements(SampleType(input).shape) > 0) continue;
    if (input.type.shape.rank() > 0) {
      return UsageError(StrCat("input '", input.name, "' is ", ToString(input.type),
                               ": its samples have no elements"));
    }
    return UsageError(StrCat("input '", input.name,
                             "' is one number for all samples, which data "
                             "cannot give; make it a constant"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> ReadDataset(std::string_view option, const std::vector<std::string>& specs,
                                    const DataInputs& inputs) {
  MILLRACE_RETURN_IF_ERROR(CheckInputs(inputs));
  const bool one_file = specs.size() == 1 && specs[0].find("=@") == std::string::npos;
  absl::StatusOr<Dataset> read =
      one_file ? ReadOneFile(specs[0], inputs) : ReadNamed(option, specs, inputs);
  if (!read.ok()) return read.status();
  const std::string where = one_file ? StrCat("'", specs[0], "'") : std::string(option);
  if (read->count == 0) return NoSample(where);
  for (const SampleArray& array : read->arrays) {
    if (array.name != inputs.target || inputs.classes == 0) continue;
    MILLRACE_RETURN_IF_ERROR(CheckLabels(array, inputs.classes, where));
  }
  return read;
}

std::optional<double> ParseFraction(std::string_view text) {
  double fraction = 0;
  if (!absl::SimpleAtod(AbslView(text), &fraction) || !(fraction > 0 && fraction < 1)) {
    return std::nullopt;
  }
  return fraction;
}

SplitSamples Split(int64_t count, double fraction) {
  // Where i * fraction reaches a whole number only but for rounding, it has reached it.
  const auto reached = [&](int64_t i) {
    return std::floor(static_cast<double>(i) * fraction * (1 + 1e-12));
  };
  SplitSamples split;
  for (int64_t i = 0; i < count; ++i) {
    (reached(i + 1) > reached(i) ? split.held_out : split.train).push_back(i);
  }
  return split;
}

std::vector<int64_t> AllSamples(const Dataset& dataset) {
  std::vector<int64_t> samples(static_cast<size_t>(dataset.count));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  return samples;
}

}  // namespace millrace
