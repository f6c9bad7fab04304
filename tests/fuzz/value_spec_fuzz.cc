// Words of the command line: "NAME=SPEC" of --input, "NAME=INTEGER" of --set. Files are left to the
// targets of their formats.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/model_file.h"
#include "tools/value_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)ParseSymbols({text, text});
  const auto spec = ParseValueSpec("--input", text);
  if (!spec.ok() || spec->spec.starts_with('@')) return 0;
  for (const TensorType& wanted : {TensorType{DType::kF32, {2, 2}}, TensorType{DType::kI8, {}},
                                   TensorType{DType::kBool, {0, 3}}}) {
    const auto tensor = ReadValue("--input", *spec, wanted);
    MILLRACE_CHECK(!tensor.ok() || tensor->type() == wanted);
  }
  (void)ReadValue("--input", *spec, 1000);
  return 0;
}
