// Bytes of messages between the processes of a job: numbers in the machine's own order (all
// processes run one binary), strings with their length before them.
#ifndef MILLRACE_RUNTIME_WIRE_H_
#define MILLRACE_RUNTIME_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace millrace {

class WireWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Put(const T& value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T)); }
  void PutString(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// What is missing reads as zeros and empty strings, and `ok` is false from then on.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T Get() {
    T value{};
    if (Has(sizeof(T))) {
      std::memcpy(&value, rest_.data(), sizeof(T));
      rest_.remove_prefix(sizeof(T));
    }
    return value;
  }
  std::string GetString() {
    const auto size = Get<uint64_t>();
    if (!Has(size)) return "";
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty() || !ok_; }

 private:
  bool Has(uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    return ok_;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_WIRE_H_
