#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "graph/strings.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr double kBetweenUpdatesS = 0.1;

double NowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), shown_(isatty(2) == 1) {}

ProgressLine::~ProgressLine() { Wipe(); }

void ProgressLine::Wipe() {
  if (width_ > 0) std::fprintf(stderr, "\r%s\r", std::string(width_, ' ').c_str());
  width_ = 0;
  last_s_ = 0;
}

void ProgressLine::Update(int64_t done, int64_t all, std::string_view more) {
  if (!shown_) return;
  const double now_s = NowS();
  if (now_s - last_s_ < kBetweenUpdatesS) return;
  last_s_ = now_s;
  constexpr int64_t kCells = 20;
  const int64_t filled = all > 0 ? std::clamp<int64_t>(done * kCells / all, 0, kCells) : 0;
  const std::string line =
      StrCat(what_, " [", std::string(filled, '#'), std::string(kCells - filled, '.'), "] ",
             FormatCount(done), " of ", FormatCount(all), more);
  width_ = std::max(width_, line.size());
  std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), line.c_str());
  std::fflush(stderr);
}

}  // namespace millrace
