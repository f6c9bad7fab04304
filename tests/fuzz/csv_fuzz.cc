// A CSV file, plain or gzip: reading returns, and the tensor has as many numbers as it may.
#include <cstddef>
#include <cstdint>

#include "runtime/csv_reader.h"
#include "tests/fuzz/in_memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  constexpr int64_t kMostNumbers = 1000;
  const InMemoryFile file(data, size);
  const auto tensor = ReadCsv(file.path(), 0, 1, kMostNumbers);
  MILLRACE_CHECK(!tensor.ok() || tensor->num_elements() <= kMostNumbers);
  return 0;
}
