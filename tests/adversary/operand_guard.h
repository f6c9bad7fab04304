// OperandGuard: lets a kernel run on copies of its operands, apart from each other and from all
// else, and looks at what it did to them.
#ifndef MILLRACE_TESTS_ADVERSARY_OPERAND_GUARD_H_
#define MILLRACE_TESTS_ADVERSARY_OPERAND_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/status.h"

namespace millrace {

class OperandGuard {
 public:
  // Operands are numbered from 0. `data` may be null: the operand is not there.
  void Add(std::byte* data, int64_t size_bytes, bool read, bool written, std::string name);

  // Calls `run` with the copies' addresses, one an operand. Operands that overlap do so in their
  // copies. What is written and not read is NaNs before. Afterwards the bytes that were written lie
  // where they belong. InternalError naming the operand that was written past its end or although
  // it is only read.
  absl::Status Run(absl::FunctionRef<absl::Status(const std::vector<void*>& addresses)> run);

 private:
  struct Operand {
    std::byte* data = nullptr;
    int64_t size_bytes = 0;
    bool read = false, written = false;
    std::string name;
  };
  // Operands that overlap, directly or through others: bytes [begin, end) of the plan's memory.
  struct Island {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    std::vector<size_t> operands;
    std::vector<std::byte> memory;  // red zone, copy, red zone
    std::byte* copy = nullptr;
  };

  std::vector<Island> MakeIslands() const;
  void Fill(Island& island) const;
  absl::Status CheckAndReturn(const Island& island) const;

  std::vector<Operand> operands_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_OPERAND_GUARD_H_
