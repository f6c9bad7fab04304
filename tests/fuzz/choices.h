// Bytes of a fuzzer as a row of choices. When they are used up, every choice is the first one.
#ifndef MILLRACE_TESTS_FUZZ_CHOICES_H_
#define MILLRACE_TESTS_FUZZ_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace millrace {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : bytes_(data, size) {}

  // From 0 to count - 1.
  int Below(int count) { return Byte() % count; }
  bool OneIn(int count) { return Below(count) == count - 1; }

  template <typename Items>
  const auto& Of(const Items& items) {
    return items[static_cast<size_t>(Byte() | Byte() << 8) % std::size(items)];
  }

  template <typename T>
  T Raw() {
    T value = {};
    const size_t size = std::min(sizeof(T), bytes_.size());
    if (size > 0) std::memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }

  std::string Text(int max_size) {
    std::string text(static_cast<size_t>(Below(max_size + 1)), '\0');
    for (char& c : text) c = static_cast<char>(Byte());
    return text;
  }

 private:
  int Byte() { return Raw<uint8_t>(); }

  std::span<const uint8_t> bytes_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_CHOICES_H_
