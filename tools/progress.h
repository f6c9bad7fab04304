// A line on the terminal that says how far a long command is.
#ifndef MILLRACE_TOOLS_PROGRESS_H_
#define MILLRACE_TOOLS_PROGRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// Written to stderr, and only when that is a terminal; wiped when this goes.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);  // "measuring kernels"
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Cheap: the terminal sees at most some updates a second. `more` follows the counts.
  void Update(int64_t done, int64_t all, std::string_view more = "");
  // Wipes the line, so that others can be printed; the next update shows it again.
  void Wipe();
  bool shown() const { return shown_; }

 private:
  const std::string what_;
  const bool shown_;
  double last_s_ = 0;
  size_t width_ = 0;  // of what stands on the line
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PROGRESS_H_
