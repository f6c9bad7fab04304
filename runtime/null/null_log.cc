#include "runtime/null/null_log.h"

#include "graph/strings.h"

namespace millrace {

void NullLog::AddRange(char prefix, const void* data, int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const int number = prefix == 'b' ? next_buffer_++ : next_flags_++;
  ranges_.push_back({.name = StrCat(std::string(1, prefix), number),
                     .begin = static_cast<const char*>(data),
                     .size_bytes = size_bytes});
}

void NullLog::RemoveRange(const void* data) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const Range& range) { return range.begin == data; });
}

std::string NullLog::Name(const void* address) const {
  if (address == nullptr) return "_";
  const std::lock_guard lock(mutex_);
  for (const Range& range : ranges_) {
    const int64_t offset = static_cast<const char*>(address) - range.begin;
    if (offset >= 0 && offset <= range.size_bytes) return StrCat(range.name, "+", offset);
  }
  return "?";
}

void NullLog::Add(std::string line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

void NullLog::Clear() {
  const std::lock_guard lock(mutex_);
  lines_.clear();
}

std::vector<std::string> NullLog::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

}  // namespace millrace
