// What lists of op cases are written with. A file of cases, op_cases_<group>.cc, defines one
// function declared here and called in op_cases.cc.
#ifndef MILLRACE_TESTS_OPS_CASE_LIST_H_
#define MILLRACE_TESTS_OPS_CASE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/strings.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"

namespace millrace::optest {

class CaseList {
 public:
  // Data of `shape`, in [low, high).
  Tensor Data(const Shape& shape, double low = -2, double high = 2) {
    return RandomTensor({DType::kF64, shape}, ++seed_, low, high);
  }
  Tensor Bools(const Shape& shape) { return RandomTensor({DType::kBool, shape}, ++seed_, 0, 2); }
  Tensor Indices(const Shape& shape, int64_t low, int64_t high) {
    return RandomTensor({DType::kI64, shape}, ++seed_, static_cast<double>(low),
                        static_cast<double>(high));
  }
  Tensor Bits(const Shape& shape, int64_t high) {
    return RandomTensor({DType::kU64, shape}, ++seed_, 0, static_cast<double>(high));
  }
  Tensor Bytes(DType dtype, const Shape& shape) {  // any of them
    const double low = dtype == DType::kI8 ? -128 : 0;
    return RandomTensor({dtype, shape}, ++seed_, low, low + 256);
  }
  static Tensor List(const std::vector<int64_t>& values) {
    return Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size())}, values);
  }
  static Tensor Matrix(int64_t rows, const std::vector<int64_t>& values) {
    return List(values).Reshaped({rows, static_cast<int64_t>(values.size()) / rows});
  }

  void Add(std::string_view op, std::vector<Tensor> inputs, Attrs attrs = {}, int num_outputs = 1) {
    std::string name(op);
    for (const auto& [key, value] : attrs) StrAppend(&name, " ", key);
    for (const Tensor& t : inputs) {
      StrAppend(&name, " ", t.has_data() ? ToString(t.type()) : "_");
    }
    cases.push_back({name, std::string(op), std::move(attrs), std::move(inputs), num_outputs});
  }

  std::vector<OpCase> cases;

 private:
  uint64_t seed_ = 0;
};

void AddAttentionCases(CaseList& l);
void AddElementwiseCases(CaseList& l);
void AddImageCases(CaseList& l);
void AddMoveCases(CaseList& l);
void AddNormalizationCases(CaseList& l);
void AddPoolCases(CaseList& l);
void AddQuantizedCases(CaseList& l);
void AddRecurrentCases(CaseList& l);
void AddTrainingCases(CaseList& l);
void AddSignalCases(CaseList& l);

}  // namespace millrace::optest

#endif  // MILLRACE_TESTS_OPS_CASE_LIST_H_
