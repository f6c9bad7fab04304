// Who touched which bytes: finds accesses that no order separates, and reads of bytes that nothing
// has written.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_ACCESS_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_ACCESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/cuda_sim/sim_clock.h"

namespace millrace::sim {

struct ByteRange {
  uint64_t begin = 0, end = 0;  // [begin, end)
};

struct AccessFault {
  enum class Kind { kRace, kUninitialized };
  Kind kind = Kind::kRace;
  ByteRange range;             // some of the bytes concerned
  OpStamp earlier;             // kRace: who else touched them
  bool earlier_wrote = false;  // kRace
};

class AccessMap {
 public:
  // Starts to track the bytes of an allocation.
  void Add(ByteRange range, bool initialized);
  // Stops tracking them; the first access that `host` (what the freeing thread has waited for) does
  // not come after.
  std::optional<OpStamp> Remove(ByteRange range, const Clock& host);

  // Notes an access by `op`, whose past is `clock` (itself included). What is wrong with it, if
  // anything: at most one fault of each kind.
  std::vector<AccessFault> Touch(ByteRange range, bool write, const OpStamp& op,
                                 const Clock& clock);

 private:
  // Bytes with one history; the key of cells_ is where it begins.
  struct Cell {
    uint64_t end = 0;
    bool initialized = false;
    OpStamp write;               // the last one
    std::vector<OpStamp> reads;  // since then, of each lane the last one
  };
  using Cells = std::map<uint64_t, Cell>;

  // The first cell of `range`, cells being cut so that none crosses its ends.
  Cells::iterator Cut(ByteRange range);
  void CutAt(uint64_t address);

  Cells cells_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_ACCESS_H_
