#include "graph/check/error_list.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kMaxShown = 20;
constexpr size_t kMaxKept = 64;

}  // namespace

void ErrorList::Add(PlanRule rule, std::string message) {
  ++total_;
  if (entries_.size() < kMaxKept) entries_.push_back({{rule, std::move(message)}, {}, 0});
}

void ErrorList::AddOnce(PlanRule rule, uint64_t key, const ErrorPlace& place, uint64_t read,
                        absl::FunctionRef<std::string()> message) {
  if (!keys_.insert(key).second) return;
  ++total_;
  if (entries_.size() < kMaxKept) entries_.push_back({{rule, message()}, place, read});
}

void ErrorList::RetractRead(uint64_t read) {
  total_ -= std::erase_if(entries_, [&](const Entry& e) { return e.read == read; });
}

std::vector<PlanError> ErrorList::Sorted() const {
  std::vector<const Entry*> order;
  for (const Entry& e : entries_) order.push_back(&e);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->place < b->place; });
  std::vector<PlanError> errors;
  for (size_t i = 0; i < std::min(order.size(), kMaxShown); ++i) errors.push_back(order[i]->error);
  return errors;
}

}  // namespace millrace
