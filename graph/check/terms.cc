#include "graph/check/terms.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace millrace {

Terms::Terms() : interned_(0, Hash{this}, Equal{this}) {
  terms_.push_back({.kind = TermKind::kNothing});
  terms_.push_back({.kind = TermKind::kBranch});
  terms_.push_back({.kind = TermKind::kTrips});
}

int32_t Terms::Leaf(TermKind kind, int32_t subject, int32_t microbatch, int32_t coordinate) {
  const auto [it, is_new] =
      leaves_.try_emplace(LeafKey{kind, subject, microbatch, coordinate}, size());
  if (is_new) {
    terms_.push_back(
        {.kind = kind, .subject = subject, .microbatch = microbatch, .coordinate = coordinate});
  }
  return it->second;
}

int32_t Terms::Earlier(int32_t term) {
  if (!SaysWhat(term) || terms_[term].kind == TermKind::kEarlier) return term;
  return Leaf(TermKind::kEarlier, term, 0, -1);
}

int32_t Terms::Apply(int32_t node, std::span<const int32_t> children, int32_t salt,
                     int32_t num_results, int32_t microbatch) {
  const auto it = interned_.find(Key{node, salt, children});
  if (it != interned_.end()) return *it;
  const int32_t application = Add(node, children, salt, num_results, microbatch);
  interned_.insert(application);
  return application;
}

int32_t Terms::ApplyAnew(int32_t node, std::span<const int32_t> children, int32_t num_results,
                         int32_t microbatch) {
  return Add(node, children, kUnique, num_results, microbatch);
}

int32_t Terms::Add(int32_t node, std::span<const int32_t> children, int32_t salt,
                   int32_t num_results, int32_t microbatch) {
  const int32_t id = static_cast<int32_t>(applications_.size());
  applications_.push_back({.node = node,
                           .first_result = size(),
                           .num_results = num_results,
                           .first_child = static_cast<int32_t>(children_.size()),
                           .num_children = static_cast<int32_t>(children.size())});
  salts_.push_back(salt);
  children_.insert(children_.end(), children.begin(), children.end());
  for (int32_t i = 0; i < num_results; ++i) {
    terms_.push_back(
        {.kind = TermKind::kResult, .subject = id, .microbatch = microbatch, .output = i});
  }
  return id;
}

Terms::Key Terms::KeyOf(int32_t application) const {
  return {applications_[application].node, salts_[application], children(application)};
}

size_t Terms::Hash::operator()(const Key& key) const {
  return absl::HashOf(key.node, key.salt,
                      absl::Span<const int32_t>(key.children.data(), key.children.size()));
}

bool Terms::Equal::operator()(int32_t a, const Key& b) const {
  const Key key = terms->KeyOf(a);
  return key.node == b.node && key.salt == b.salt && std::ranges::equal(key.children, b.children);
}

}  // namespace millrace
