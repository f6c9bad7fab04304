// A packing can be pushed down until each buffer lies at the bottom or on another one. Such
// packings are built here from below. Each section has a *floor*, below which nothing more will
// lie. Where the floors of neighbouring sections are equal and those around are higher, there is a
// *valley*. Whatever comes next in one of its sections either lies on the valley's floor, within
// its walls, or leaves the floor empty there, to the height at which something could lie at the
// soonest. So it is complete to choose any section of any valley, and to try each buffer that could
// lie on its floor, and then a higher floor. An empty stretch is waste, and a section can waste no
// more than the height leaves over its load: that is what cuts the tree down.
//
//  * A floor on which nothing can lie any more rises at once (LiftEmptied).
//  * Sections that no unplaced buffer joins are searched one after another, and if one fails all
//  do.
//  * A buffer that lives in all sections that hang together may as well lie at their bottom.
//  * Of buffers that are alike, one is tried.
//  * What failed is remembered, as a hash of floors and unplaced buffers: the same skyline comes up
//    again in other orders, and under other rules. (A collision of two 64-bit hashes could hide a
//    packing; it could not produce a wrong one.)
//
// Everything is kept up to date by what a move changes, so a node costs about the buffers that
// touch the one placed. The idea of canonical packings and of bounding sections is that of
// M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
// Learning", ASPLOS 2023; branching on a section of a valley is not.
#include "passes/memory/exact_search.h"

#include <algorithm>
#include <limits>

namespace millrace {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
constexpr size_t kRememberedStates = size_t{1} << 16;

uint64_t Mix(uint64_t x) {  // the finalizer of splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool AreAlike(const PackItem& a, const PackItem& b) {
  return a.first == b.first && a.last == b.last && a.size == b.size && a.alignment == b.alignment;
}

}  // namespace

ExactSearch::ExactSearch(const LiveSections& sections) : sections_(sections) {
  const int32_t n = sections.num_items(), k = sections.num_sections();
  covering_begin_.assign(k + 1, 0);
  starting_.assign(k + 1, 0);
  crossing_.assign(k, 0);
  unplaced_.assign(k, 0);
  starting_key_.assign(k, 0);
  for (int32_t i = 0; i < n; ++i) {
    const PackItem& item = sections.items[i];
    for (int32_t s = item.first; s <= item.last; ++s) ++unplaced_[s];
    for (int32_t s = item.first; s < item.last; ++s) ++crossing_[s];
    ++starting_[item.first + 1];
    starting_key_[item.first] ^= static_cast<int64_t>(Mix(i));
  }
  for (int32_t s = 0; s < k; ++s) {
    starting_[s + 1] += starting_[s];
    covering_begin_[s + 1] = covering_begin_[s] + static_cast<int32_t>(unplaced_[s]);
  }
  covering_.resize(covering_begin_[k]);
  std::vector<int32_t> next(covering_begin_.begin(), covering_begin_.end() - 1);
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t s = sections.items[i].first; s <= sections.items[i].last; ++s) {
      covering_[next[s]++] = i;
    }
  }
  offset_.assign(n, kUnplaced);
  lowest_.assign(n, 0);
  floor_.assign(k, 0);
  to_come_ = sections.load;
  on_floor_ = unplaced_;
  failures_.assign(k, 1);
}

SearchOutcome ExactSearch::Run(int64_t height, const SearchRule& rule, int64_t max_work,
                               int64_t& work) {
  UndoTo(0);
  if (height > failed_height_) failed_.assign(kRememberedStates, 0);
  failed_height_ = height;
  height_ = height;
  rule_ = &rule;
  work_ = 0;
  max_work_ = max_work;
  candidates_.clear();
  if (sections_.max_load > height) return SearchOutcome::kImpossible;
  const bool found = SearchRange(0, sections_.num_sections() - 1);
  work += work_;
  if (found) return SearchOutcome::kFound;
  return OutOfWork() ? SearchOutcome::kGaveUp : SearchOutcome::kImpossible;
}

void ExactSearch::UndoTo(size_t mark) {
  while (changes_.size() > mark) {
    *changes_.back().where = changes_.back().before;
    changes_.pop_back();
  }
}

template <typename Visit>
void ExactSearch::ForEachUnplaced(int32_t first, int32_t last, Visit&& visit) {
  const std::span<const int32_t> covering = Covering(first);
  for (int32_t i : covering) {
    if (Unplaced(i)) visit(i);
  }
  for (int32_t i = starting_[first + 1]; i < starting_[last + 1]; ++i) {
    if (Unplaced(i)) visit(i);
  }
  work_ += std::ssize(covering) + starting_[last + 1] - starting_[first + 1];
}

bool ExactSearch::Place(int32_t i, int64_t offset) {
  const PackItem& item = sections_.items[i];
  Set(offset_[i], offset);
  Set(starting_key_[item.first], starting_key_[item.first] ^ static_cast<int64_t>(Mix(i)));
  for (int32_t s = item.first; s <= item.last; ++s) {
    Set(to_come_[s], to_come_[s] - item.size);
    Set(unplaced_[s], unplaced_[s] - 1);
  }
  for (int32_t s = item.first; s < item.last; ++s) Set(crossing_[s], crossing_[s] - 1);
  return Lift(item.first, item.last, offset + item.size);
}

bool ExactSearch::Lift(int32_t first, int32_t last, int64_t floor) {
  for (int32_t s = first; s <= last; ++s) {
    Set(floor_[s], floor);
    Set(on_floor_[s], 0);
  }
  work_ += 4 * (last - first + 1);
  ForEachUnplaced(first, last, [&](int32_t i) {
    const PackItem& item = sections_.items[i];
    const int64_t lowest = AlignUp(floor, item.alignment);
    if (lowest_[i] < lowest) RaiseLowest(i, lowest, first, last);
    if (lowest_[i] != floor) return;
    const int32_t end = std::min(last, item.last);
    for (int32_t s = std::max(first, item.first); s <= end; ++s) ++on_floor_[s];
  });
  for (int32_t s = first; s <= last; ++s) emptied_.push_back(s);
  return LiftEmptied();
}

// Keeps on_floor_ right outside of [first, last], whose sections are counted anew.
void ExactSearch::RaiseLowest(int32_t i, int64_t lowest, int32_t first, int32_t last) {
  const PackItem& item = sections_.items[i];
  const auto raise = [&](int32_t begin, int32_t end) {
    for (int32_t s = begin; s <= end; ++s) {
      if (floor_[s] == lowest_[i]) {
        Set(on_floor_[s], on_floor_[s] - 1);
        if (on_floor_[s] == 0) emptied_.push_back(s);
      } else if (floor_[s] == lowest) {
        Set(on_floor_[s], on_floor_[s] + 1);
      }
    }
  };
  raise(item.first, first - 1);
  raise(last + 1, item.last);
  Set(lowest_[i], lowest);
  work_ += item.last - item.first + 1;
}

bool ExactSearch::LiftEmptied() {
  bool fits = true;
  for (int32_t s : emptied_) {
    if (unplaced_[s] == 0 || !fits) continue;
    if (on_floor_[s] == 0) {
      int64_t lowest = kNever, count = 0;
      for (int32_t i : Covering(s)) {
        if (!Unplaced(i) || lowest_[i] > lowest) continue;
        count = lowest_[i] < lowest ? 1 : count + 1;
        lowest = lowest_[i];
      }
      work_ += std::ssize(Covering(s));
      Set(floor_[s], lowest);
      Set(on_floor_[s], count);
    }
    fits = floor_[s] + to_come_[s] <= height_;
    if (!fits) ++failures_[s];
  }
  emptied_.clear();
  return fits;
}

bool ExactSearch::SearchRange(int32_t begin, int32_t end) {
  for (int32_t s = begin; s <= end;) {
    int32_t last = s;
    while (last < end && crossing_[last] > 0) ++last;
    if (unplaced_[s] > 0 && !SearchComponent(s, last)) return false;
    s = last + 1;
  }
  return true;
}

bool ExactSearch::SearchComponent(int32_t begin, int32_t end) {
  work_ += 3 * (end - begin + 1);
  if (OutOfWork()) return false;
  const uint64_t state = StateOf(begin, end);
  if (failed_[state % failed_.size()] == state) return false;

  ++depth_;
  const size_t mark = changes_.size();
  const Branch branch = ChooseBranch(begin, end);
  bool is_final = false;
  bool found = TryCandidates(begin, end, branch.section, is_final);
  if (!found && !is_final && !OutOfWork() && branch.next_floor >= 0) {
    found = Lift(branch.section, branch.section, branch.next_floor) && SearchRange(begin, end);
  }
  if (!found) {
    UndoTo(mark);
    if (!OutOfWork()) failed_[state % failed_.size()] = state;
  }
  --depth_;
  return found;
}

// Tries what could lie on the section's floor. `is_final`: when that fails, so does all else.
bool ExactSearch::TryCandidates(int32_t begin, int32_t end, int32_t section, bool& is_final) {
  const int64_t floor = floor_[section];
  const size_t first = candidates_.size();
  for (int32_t i : Covering(section)) {
    if (Unplaced(i) && lowest_[i] == floor) candidates_.push_back(i);
  }
  const size_t last = candidates_.size();
  std::sort(candidates_.begin() + first, candidates_.end(), [&](int32_t a, int32_t b) {
    return rule_->worth[a] != rule_->worth[b] ? rule_->worth[a] > rule_->worth[b] : a < b;
  });
  const size_t mark = changes_.size();
  bool found = false;
  for (size_t c = first; c < last && !found && !is_final && !OutOfWork(); ++c) {
    const PackItem& item = sections_.items[candidates_[c]];
    const auto is_like_it = [&](int32_t i) { return AreAlike(sections_.items[i], item); };
    const auto tried = candidates_.begin();
    if (std::any_of(tried + first, tried + c, is_like_it)) continue;
    found = Place(candidates_[c], floor) && SearchRange(begin, end);
    if (!found) UndoTo(mark);
    is_final = sections_.one_alignment && item.first == begin && item.last == end;
  }
  candidates_.resize(first);
  return found;
}

ExactSearch::Branch ExactSearch::ChooseBranch(int32_t begin, int32_t end) {
  Branch best;
  double best_key = std::numeric_limits<double>::infinity();
  for (int32_t b = begin; b <= end;) {
    int32_t e = b;
    while (e < end && floor_[e + 1] == floor_[b]) ++e;
    const bool is_valley =
        (b == begin || floor_[b - 1] > floor_[b]) && (e == end || floor_[e + 1] > floor_[b]);
    for (int32_t s = b; is_valley && s <= e; ++s) {
      const int64_t room = height_ - floor_[s] - to_come_[s];
      // Where there is no choice, make it at once.
      if (on_floor_[s] == 1 && (room == 0 || NextFloor(s) + to_come_[s] > height_)) return {s, -1};
      const double key = KeyOf(s, room);
      if (key < best_key) {
        best_key = key;
        best.section = s;
      }
    }
    b = e + 1;
  }
  const int64_t next = NextFloor(best.section);
  if (next + to_come_[best.section] <= height_) best.next_floor = next;
  return best;
}

double ExactSearch::KeyOf(int32_t s, int64_t room) const {
  const double choices = static_cast<double>(on_floor_[s] + (room > 0 ? 1 : 0));
  const double space = static_cast<double>(room);
  switch (rule_->section) {
    case SearchRule::Section::kTightest:
      return space + choices / 64;
    case SearchRule::Section::kRelativelyTightest:
      return space / static_cast<double>(sections_.load[s]) + choices / 64;
    case SearchRule::Section::kFewest:
      return (choices + space / static_cast<double>(height_)) / static_cast<double>(failures_[s]);
  }
  return 0;
}

// The lowest floor of the section that is above the present one: where another buffer could lie
// that cannot lie on this one, or where one that could comes to lie on something else.
int64_t ExactSearch::NextFloor(int32_t section) {
  int64_t next = kNever;
  int32_t first = section, last = section;  // of those that could lie on the floor
  for (int32_t i : Covering(section)) {
    if (!Unplaced(i)) continue;
    if (lowest_[i] > floor_[section]) {
      next = std::min(next, lowest_[i]);
    } else {
      first = std::min(first, sections_.items[i].first);
      last = std::max(last, sections_.items[i].last);
    }
  }
  work_ += std::ssize(Covering(section));
  ForEachUnplaced(first, last, [&](int32_t i) {
    const PackItem& item = sections_.items[i];
    if (item.last < section || item.first > section) next = std::min(next, lowest_[i] + item.size);
  });
  return next;
}

uint64_t ExactSearch::StateOf(int32_t begin, int32_t end) const {
  uint64_t state = Mix((static_cast<uint64_t>(begin) << 32) | static_cast<uint32_t>(end));
  for (int32_t s = begin; s <= end; ++s) {
    state = (state ^ static_cast<uint64_t>(floor_[s])) * 0x9fb21c651e98df25;
    state ^= (state >> 32) ^ static_cast<uint64_t>(starting_key_[s]);
  }
  return Mix(state) | 1;  // 0: none
}

}  // namespace millrace
