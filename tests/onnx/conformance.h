// ONNX's own conformance suite (Debian: libonnx-testdata): models with inputs and the outputs they
// must give. Each case is imported, inferred, compiled for cpu:0, run and compared.
#ifndef MILLRACE_TESTS_ONNX_CONFORMANCE_H_
#define MILLRACE_TESTS_ONNX_CONFORMANCE_H_

#include <string>
#include <vector>

namespace millrace {

enum class CaseOutcome {
  kPassed,
  kOutOfScope,   // refused by name: strings, sequences, optionals, training domain
  kUnsupported,  // refused by name: an op or a form of one that is not there yet
  kFailed,       // wrong results, or an error that it should not have given
};

struct CaseResult {
  std::string name;  // "node/test_abs"
  std::string row;   // where it counts in the table: "Abs", "PyTorch operators"
  CaseOutcome outcome = CaseOutcome::kFailed;
  std::string reason;   // of kOutOfScope, kUnsupported: short, the same for like cases
  std::string message;  // the error, or the first difference
};

// Sorted; empty when the suite is not installed. `pattern` is a glob over names.
std::vector<std::string> ConformanceCases(const std::string& pattern = "*");

CaseResult RunConformanceCase(const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_TESTS_ONNX_CONFORMANCE_H_
