// Terms: what bytes can hold, as expressions over what a step starts from. Two bytes strings are
// taken to be equal exactly when their terms are: a deterministic node applied to equal terms is
// one term, whichever program, microbatch or section ran it. So the checker needs no rule of its
// own for recomputation, for work done once and used by all microbatches, or for results that all
// members of a collective share.
#ifndef MILLRACE_GRAPH_CHECK_TERMS_H_
#define MILLRACE_GRAPH_CHECK_TERMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace millrace {

enum class TermKind : uint8_t {
  kNothing,   // never written, scratch, or half of something
  kInput,     // subject: a global value (graph_index.h); one per microbatch
  kConstant,  // subject: a global value
  kParam,     // subject: a global value; its version at the start of the step
  kResult,    // subject: an application; `output`: which of the node's outputs
  kEarlier,   // subject: a term of an earlier step, which nothing may read any more
  kBranch,    // depends on which body of a Call ran
  kTrips,     // depends on how often the body of a Call ran
  kTrip,      // subject: a global value; what it is in one trip of a loop
};

struct ContentTerm {
  TermKind kind = TermKind::kNothing;
  int32_t subject = -1;
  int32_t microbatch = 0;  // kInput; kResult: the first instance that gave it, for messages
  // Of leaves that differ from device to device: a linear coordinate of the mesh, or, for replicas
  // that no longer agree, kFirstReplica and their representative.
  int32_t coordinate = -1;
  int32_t output = 0;
};

// A node applied to terms.
struct NodeApplication {
  int32_t node = -1;         // global
  int32_t first_result = 0;  // terms of its outputs: consecutive
  int32_t num_results = 0;
  int32_t first_child = 0;
  int32_t num_children = 0;
};

inline constexpr int32_t kFirstReplica = 1 << 24;
inline constexpr int32_t kNothingTerm = 0;
inline constexpr int32_t kBranchTerm = 1;
inline constexpr int32_t kTripsTerm = 2;
// Whether bytes may be asked for it: it says what they hold.
inline bool SaysWhat(int32_t term) { return term > kTripsTerm; }

class Terms {
 public:
  Terms();

  int32_t Leaf(TermKind kind, int32_t subject, int32_t microbatch, int32_t coordinate);
  int32_t Earlier(int32_t term);

  // The application of `node` to `children`; the same one for the same node, children and salt.
  int32_t Apply(int32_t node, std::span<const int32_t> children, int32_t salt, int32_t num_results,
                int32_t microbatch);
  // An application like no other: of a node whose results differ from run to run.
  int32_t ApplyAnew(int32_t node, std::span<const int32_t> children, int32_t num_results,
                    int32_t microbatch);

  const ContentTerm& term(int32_t id) const { return terms_[id]; }
  const NodeApplication& application(int32_t id) const { return applications_[id]; }
  std::span<const int32_t> children(int32_t application) const {
    const NodeApplication& a = applications_[application];
    return std::span(children_).subspan(a.first_child, a.num_children);
  }
  int32_t salt(int32_t application) const { return salts_[application]; }
  bool unique(int32_t application) const { return salts_[application] == kUnique; }
  int32_t size() const { return static_cast<int32_t>(terms_.size()); }

 private:
  static constexpr int32_t kUnique = -1;  // the salt of ApplyAnew

  // Applications are interned by content: the set stores ids, and looks at what they stand for.
  struct Key {
    int32_t node, salt;
    std::span<const int32_t> children;
  };
  struct Hash {
    using is_transparent = void;
    const Terms* terms;
    size_t operator()(int32_t id) const { return (*this)(terms->KeyOf(id)); }
    size_t operator()(const Key& key) const;
  };
  struct Equal {
    using is_transparent = void;
    const Terms* terms;
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(int32_t a, const Key& b) const;
    bool operator()(const Key& a, int32_t b) const { return (*this)(b, a); }
  };
  Key KeyOf(int32_t application) const;
  int32_t Add(int32_t node, std::span<const int32_t> children, int32_t salt, int32_t num_results,
              int32_t microbatch);

  struct LeafKey {
    TermKind kind;
    int32_t subject, microbatch, coordinate;
    bool operator==(const LeafKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const LeafKey& k) {
      return H::combine(std::move(h), k.kind, k.subject, k.microbatch, k.coordinate);
    }
  };

  std::vector<ContentTerm> terms_;
  std::vector<NodeApplication> applications_;
  std::vector<int32_t> salts_, children_;
  absl::flat_hash_map<LeafKey, int32_t> leaves_;
  absl::flat_hash_set<int32_t, Hash, Equal> interned_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_TERMS_H_
