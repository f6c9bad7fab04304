// Sets of element types, for operand specs.
#ifndef MILLRACE_OPS_DTYPES_H_
#define MILLRACE_OPS_DTYPES_H_

#include <vector>

#include "graph/types.h"

namespace millrace {

inline std::vector<DType> FloatTypes() {
  return {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
}

inline std::vector<DType> IntegerTypes() {
  return {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
          DType::kI32, DType::kU32, DType::kI64, DType::kU64};
}

// Integers and floats; not bool.
inline std::vector<DType> NumericTypes() {
  std::vector<DType> all = IntegerTypes();
  for (DType d : FloatTypes()) all.push_back(d);
  return all;
}

inline std::vector<DType> SignedTypes() {
  return {DType::kI8,  DType::kI16,  DType::kI32, DType::kI64,
          DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
}

// What positions in a tensor are given in.
inline std::vector<DType> IndexTypes() { return {DType::kI32, DType::kI64}; }

}  // namespace millrace

#endif  // MILLRACE_OPS_DTYPES_H_
