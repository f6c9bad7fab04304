// What a null device knows of its memory, and what it was asked to do.
#ifndef MILLRACE_RUNTIME_NULL_NULL_LOG_H_
#define MILLRACE_RUNTIME_NULL_NULL_LOG_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// Thread safe: several programs may issue to one device.
class NullLog {
 public:
  // A range of addresses, to be called `prefix` and its number among those of the prefix.
  void AddRange(char prefix, const void* data, int64_t size_bytes);
  void RemoveRange(const void* data);
  // "b0+64", "f3+0"; "?" for what lies in no range, "_" for null.
  std::string Name(const void* address) const;

  void Add(std::string line);
  void Clear();
  std::vector<std::string> lines() const;

 private:
  struct Range {
    std::string name;
    const char* begin = nullptr;
    int64_t size_bytes = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Range> ranges_;
  int next_buffer_ = 0, next_flags_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_NULL_NULL_LOG_H_
