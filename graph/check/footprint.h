// Footprint: exactly which bytes a slice's value occupies, and which of its elements each of them
// belongs to. Bytes are grouped into *runs*: maximal contiguous ranges.
//
// An *image* is one order of a value's elements: row-major, a permutation of its dims, or a blocked
// or packed layout. Two places hold the same bytes of a value at the same image offsets when their
// images are equal, whatever gaps lie between their runs; so a byte's meaning is (value, image,
// offset in the image), and strided places of one value can be compared with dense ones.
#ifndef MILLRACE_GRAPH_CHECK_FOOTPRINT_H_
#define MILLRACE_GRAPH_CHECK_FOOTPRINT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

namespace millrace {

inline constexpr int32_t kRowMajorImage = 0;
// A slice of more runs is refused: its bytes cannot be told apart in reasonable time.
inline constexpr int64_t kMaxRuns = int64_t{1} << 16;

struct Footprint {
  struct Loop {
    int64_t count = 1;
    int64_t step_bytes = 0;
  };
  int64_t span_bytes = 0;     // from the first byte to one past the last; 0: no elements
  int64_t element_bytes = 1;  // alignment of the first byte
  int64_t run_bytes = 0;
  int64_t num_runs = 0;
  int32_t image = kRowMajorImage;
  bool packed = false;      // the image depends on the kernel variant
  std::vector<Loop> loops;  // over runs, outermost (widest step) first

  bool contiguous() const { return num_runs <= 1; }
};

// The runs of a footprint whose first byte is at `begin`, by ascending address.
class RunCursor {
 public:
  RunCursor(const Footprint& footprint, int64_t begin)
      : footprint_(footprint), begin_(begin), done_(footprint.num_runs == 0) {}

  bool done() const { return done_; }
  int64_t begin() const { return begin_; }
  int64_t end() const { return begin_ + footprint_.run_bytes; }
  int64_t image_offset() const { return image_offset_; }
  void Advance();

 private:
  const Footprint& footprint_;
  int64_t begin_;
  int64_t image_offset_ = 0;
  bool done_;
  std::array<int64_t, kMaxRank> index_{};
};

// What the slice's value occupies. Returns "" or what is wrong with layout, strides or size, as in
// "strides make elements overlap"; `footprint` is then unspecified. `value` is null for scratch.
std::string MakeFootprint(const Slice& slice, const Value* value, Footprint& footprint);

// Whether two footprints share a byte of one buffer.
bool Overlap(const Footprint& a, int64_t a_begin, const Footprint& b, int64_t b_begin);

// Whether two footprints at one address are the same bytes in the same order.
bool SamePlaces(const Footprint& a, const Footprint& b);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_FOOTPRINT_H_
