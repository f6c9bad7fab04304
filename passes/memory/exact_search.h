// Exact search for a packing of at most a given height: branch and bound from the bottom up.
#ifndef MILLRACE_PASSES_MEMORY_EXACT_SEARCH_H_
#define MILLRACE_PASSES_MEMORY_EXACT_SEARCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "passes/memory/live_sections.h"

namespace millrace {

enum class SearchOutcome : uint8_t {
  kFound,
  kImpossible,  // proved: there is none
  kGaveUp,      // after the work allowed
};

// Where to branch, and what to try first there. Every rule is complete; which one is quick differs
// from problem to problem, by orders of magnitude.
struct SearchRule {
  enum class Section : uint8_t {
    kTightest,            // least room to waste
    kRelativelyTightest,  // least for its load
    kFewest,              // fewest choices, for the failures seen there
  };
  Section section = Section::kTightest;
  std::vector<double> worth;  // by item: greater goes first
};

class ExactSearch {
 public:
  explicit ExactSearch(const LiveSections& sections);

  // Looks for a packing of at most `height` units. Remembers, from call to call, where it failed
  // and what cannot be completed. Adds its steps to `work`.
  SearchOutcome Run(int64_t height, const SearchRule& rule, int64_t max_work, int64_t& work);
  const ItemOffsets& offsets() const { return offset_; }  // after kFound

 private:
  static constexpr int64_t kUnplaced = -1;

  struct Branch {
    int32_t section = -1;
    int64_t next_floor = -1;  // of the section, when nothing is put on this one; -1: out of reach
  };
  struct Change {
    int64_t* where;
    int64_t before;
  };

  bool Unplaced(int32_t item) const { return offset_[item] == kUnplaced; }
  std::span<const int32_t> Covering(int32_t section) const {
    return std::span(covering_).subspan(covering_begin_[section],
                                        covering_begin_[section + 1] - covering_begin_[section]);
  }
  // Visits the unplaced items that live in [first, last].
  template <typename Visit>
  void ForEachUnplaced(int32_t first, int32_t last, Visit&& visit);

  void Set(int64_t& where, int64_t value) {
    changes_.push_back({&where, where});
    where = value;
  }
  void UndoTo(size_t mark);

  // The moves. False when some section has no room left for what is to come.
  bool Place(int32_t item, int64_t offset);
  bool Lift(int32_t first, int32_t last, int64_t floor);
  void RaiseLowest(int32_t item, int64_t lowest, int32_t first, int32_t last);
  bool LiftEmptied();

  bool SearchRange(int32_t begin, int32_t end);      // sections that may have come apart
  bool SearchComponent(int32_t begin, int32_t end);  // sections that hang together
  bool TryCandidates(int32_t begin, int32_t end, int32_t section, bool& is_final);
  Branch ChooseBranch(int32_t begin, int32_t end);
  double KeyOf(int32_t section, int64_t room) const;
  int64_t NextFloor(int32_t section);
  uint64_t StateOf(int32_t begin, int32_t end) const;
  bool OutOfWork() const { return work_ > max_work_ || depth_ > kMaxDepth; }

  static constexpr int32_t kMaxDepth = 10'000;  // of recursion

  const LiveSections& sections_;
  std::vector<int32_t> covering_, covering_begin_;  // items by section
  std::vector<int32_t> starting_;                   // by section: the first item that starts there

  // What is placed, seen from above. Changes are undone in reverse.
  ItemOffsets offset_;                 // by item
  std::vector<int64_t> lowest_;        // by item: where it could lie at the lowest
  std::vector<int64_t> floor_;         // by section: nothing more comes to lie below
  std::vector<int64_t> to_come_;       // by section: units of its unplaced items
  std::vector<int64_t> unplaced_;      // by section: how many those are
  std::vector<int64_t> on_floor_;      // by section: how many of them could lie right on the floor
  std::vector<int64_t> crossing_;      // by section: how many of them also live in the next section
  std::vector<int64_t> starting_key_;  // by section: hash of the unplaced items that start there
  std::vector<Change> changes_;

  std::vector<int64_t> failures_;  // by section, and one
  std::vector<uint64_t> failed_;   // hashed states that cannot be completed
  int64_t failed_height_ = -1;     // at any height up to this

  int64_t height_ = 0;
  const SearchRule* rule_ = nullptr;
  int64_t work_ = 0, max_work_ = 0;
  int32_t depth_ = 0;
  std::vector<int32_t> emptied_;     // sections to look at after a move
  std::vector<int32_t> candidates_;  // a stack: those of all branches on the way
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_EXACT_SEARCH_H_
