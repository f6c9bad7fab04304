#include "tools/value_spec.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/files.h"
#include "graph/npy.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "runtime/csv_reader.h"
#include "runtime/idx_reader.h"

namespace millrace {
namespace {

// So many numbers of a CSV file are read even if too many: how many there are helps to mend it.
constexpr int64_t kCsvElementsCounted = 10'000'000;

constexpr std::string_view kForms =
    "@FILE.npy, @FILE.idx, @FILE.csv:COLUMNS, rand:SEED, or TYPE=ELEMENTS such as '2x2xf32=1 2 3 "
    "4'";

// An error about one "NAME=SPEC" argument.
absl::Status SpecError(std::string_view option, const ValueSpec& spec, std::string_view what) {
  return UsageError(StrCat(option, " ", spec.name, "=", spec.spec, ": ", what));
}

bool SetInteger(std::string_view text, Tensor& tensor, int64_t i) {
  const int bits = static_cast<int>(8 * SizeOf(tensor.dtype()));
  uint64_t stored = 0;
  if (IsSigned(tensor.dtype())) {
    int64_t value = 0;
    const int64_t max = std::numeric_limits<int64_t>::max() >> (64 - bits);
    if (!absl::SimpleAtoi(AbslView(text), &value) || value > max || value < -max - 1) return false;
    stored = static_cast<uint64_t>(value);
  } else {
    const uint64_t max = std::numeric_limits<uint64_t>::max() >> (64 - bits);
    if (!absl::SimpleAtoi(AbslView(text), &stored) || stored > max) return false;
  }
  std::memcpy(tensor.mutable_bytes() + i * bits / 8, &stored, bits / 8);  // little-endian
  return true;
}

// Parses one element; false when it is malformed or out of the type's range.
bool SetElement(std::string_view text, Tensor& tensor, int64_t i) {
  if (IsInteger(tensor.dtype())) return SetInteger(text, tensor, i);
  double value = 0;
  if (tensor.dtype() == DType::kBool) {
    if (text != "0" && text != "1" && text != "false" && text != "true") return false;
    value = text == "1" || text == "true";
  } else if (!absl::SimpleAtod(AbslView(text), &value)) {
    return false;
  }
  tensor.Set(i, value);
  return true;
}

// "2x2xf32".
std::optional<TensorType> ParseType(std::string_view text) {
  TensorType type;
  const std::vector<std::string> parts = absl::StrSplit(AbslView(text), 'x');
  if (parts.size() - 1 > kMaxRank) return std::nullopt;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    int64_t dim = 0;
    if (!absl::SimpleAtoi(parts[i], &dim) || dim < 0) return std::nullopt;
    type.shape.push_back(dim);
  }
  const std::optional<DType> dtype = ParseDType(parts.back());
  if (!dtype.has_value()) return std::nullopt;
  type.dtype = *dtype;
  if (!CheckedByteSize(type).has_value()) return std::nullopt;
  return type;
}

absl::StatusOr<Tensor> ReadLiteral(std::string_view option, const ValueSpec& spec) {
  const size_t equals = spec.spec.find('=');
  const std::optional<TensorType> type = ParseType(spec.spec.substr(0, equals));
  if (equals == std::string::npos || !type.has_value()) {
    return SpecError(option, spec, StrCat("expected ", kForms));
  }
  const std::vector<std::string> elements =
      absl::StrSplit(spec.spec.substr(equals + 1), absl::ByAnyChar(" ,"), absl::SkipEmpty());
  if (static_cast<int64_t>(elements.size()) != NumElements(type->shape)) {
    return SpecError(
        option, spec,
        StrCat("expected ", NumElements(type->shape), " elements, found ", elements.size()));
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(*type));
  for (size_t i = 0; i < elements.size(); ++i) {
    if (SetElement(elements[i], tensor, static_cast<int64_t>(i))) continue;
    return SpecError(option, spec,
                     StrCat("element ", i, ": expected ", DTypeName(type->dtype), ", found '",
                            elements[i], "'"));
  }
  return tensor;
}

absl::StatusOr<Tensor> MakeRandom(std::string_view option, const ValueSpec& spec,
                                  const TensorType& type) {
  uint64_t seed = 0;
  if (spec.spec != "rand" && !absl::SimpleAtoi(spec.spec.substr(5), &seed)) {
    return SpecError(option, spec, "expected rand or rand:SEED with an integer");
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  const int64_t elements = tensor.num_elements();
  for (int64_t i = 0; i < elements; ++i) {
    const float x = UniformAt(seed, static_cast<uint64_t>(i));
    tensor.Set(i, IsFloat(type.dtype) ? x : x < 0.5f);
  }
  return tensor;
}

bool IsRandom(const ValueSpec& spec) {
  return spec.spec == "rand" || absl::StartsWith(spec.spec, "rand:");
}

bool IsNpy(const ValueSpec& spec) {
  return absl::StartsWith(spec.spec, "@") && absl::EndsWith(spec.spec, ".npy") &&
         spec.spec.size() > 5;
}

bool IsIdx(const ValueSpec& spec) {
  std::string_view path = spec.spec;
  if (path.empty() || path[0] != '@') return false;
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with(".idx") || path.ends_with("-ubyte");  // as the MNIST files are called
}

// "@x.csv.gz:0-63" taken apart; columns from 0, both included.
struct CsvPlace {
  std::string path;
  int first = 0, last = 0;
};
std::optional<CsvPlace> ParseCsvPlace(std::string_view spec) {
  const size_t colon = spec.rfind(':');
  if (spec.empty() || spec[0] != '@' || colon == std::string_view::npos) return std::nullopt;
  CsvPlace place{.path = std::string(spec.substr(1, colon - 1))};
  if (!absl::EndsWith(place.path, ".csv") && !absl::EndsWith(place.path, ".csv.gz")) {
    return std::nullopt;
  }
  const std::vector<std::string> ends = absl::StrSplit(AbslView(spec.substr(colon + 1)), '-');
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &place.first) ||
      !absl::SimpleAtoi(ends.back(), &place.last) || place.first < 0 || place.last < place.first) {
    return std::nullopt;
  }
  return place;
}

// CSV data as `wanted`: the same elements under another shape and type.
absl::StatusOr<Tensor> ConvertCsv(std::string_view option, const ValueSpec& spec,
                                  const Tensor& rows, const TensorType& wanted) {
  if (rows.num_elements() != NumElements(wanted.shape)) {
    return SpecError(option, spec,
                     StrCat("expected ", NumElements(wanted.shape), " numbers for ",
                            ToString(wanted), ", found ", rows.shape()[0], " rows of ",
                            rows.shape()[1], "; a symbol of the graph may say how many (--set)"));
  }
  if (wanted.dtype == DType::kF32) return rows.Reshaped(wanted.shape);
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(wanted));
  const int64_t elements = tensor.num_elements();
  for (int64_t i = 0; i < elements; ++i) tensor.Set(i, rows.AsDouble(i));
  return tensor;
}

absl::StatusOr<Tensor> ReadAny(std::string_view option, const ValueSpec& spec,
                               int64_t max_elements) {
  if (IsNpy(spec)) return ReadNpy(spec.spec.substr(1));
  if (IsIdx(spec)) return ReadIdx(spec.spec.substr(1));
  if (const std::optional<CsvPlace> place = ParseCsvPlace(spec.spec)) {
    return ReadCsv(place->path, place->first, place->last,
                   std::max(max_elements, kCsvElementsCounted));
  }
  return ReadLiteral(option, spec);
}

}  // namespace

absl::StatusOr<ValueSpec> ParseValueSpec(std::string_view option, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return UsageError(StrCat(option, " ", text, ": expected NAME=", kForms));
  }
  return ValueSpec{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

absl::StatusOr<Tensor> ReadValue(std::string_view option, const ValueSpec& spec,
                                 const TensorType& wanted) {
  if (IsRandom(spec)) return MakeRandom(option, spec, wanted);
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, ReadAny(option, spec, NumElements(wanted.shape)));
  if (tensor.type() == wanted) return tensor;
  if (ParseCsvPlace(spec.spec).has_value()) return ConvertCsv(option, spec, tensor, wanted);
  return SpecError(option, spec,
                   StrCat("expected ", ToString(wanted), ", found ", ToString(tensor.type())));
}

absl::StatusOr<Tensor> ReadValue(std::string_view option, const ValueSpec& spec,
                                 int64_t max_elements) {
  if (IsRandom(spec)) return SpecError(option, spec, "random values make no sense here");
  return ReadAny(option, spec, max_elements);
}

absl::Status CheckWritable(std::string_view option, const ValueSpec& spec) {
  if (!IsNpy(spec)) return SpecError(option, spec, "expected @FILE.npy");
  return Annotate(CheckCanWrite(spec.spec.substr(1)), option);
}

absl::Status WriteValue(const ValueSpec& spec, const Tensor& tensor) {
  return WriteNpy(spec.spec.substr(1), tensor);
}

}  // namespace millrace
