// Copies of many short runs of bytes: a call of memcpy costs more than moving a few bytes.
#ifndef MILLRACE_OPS_CPU_COPY_ROWS_H_
#define MILLRACE_OPS_CPU_COPY_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace {

inline void CopyRow(std::byte* to, const std::byte* from, int64_t size_bytes) {
  switch (size_bytes) {
    case 1:
      std::memcpy(to, from, 1);
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, static_cast<size_t>(size_bytes));
  }
}

// Rows of `row_bytes`, each starting a pitch after the one before.
inline void CopyRows(std::byte* to, int64_t to_pitch, const std::byte* from, int64_t from_pitch,
                     int64_t row_bytes, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) CopyRow(to + r * to_pitch, from + r * from_pitch, row_bytes);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_COPY_ROWS_H_
