// ErrorList: what a check found, so that a person reads causes and not echoes: one error per place
// in the plan however many microbatches run into it, in issue order, and no stale read that a race
// explains.
#ifndef MILLRACE_GRAPH_CHECK_ERROR_LIST_H_
#define MILLRACE_GRAPH_CHECK_ERROR_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "graph/check/check.h"

namespace millrace {

// Where an error sorts: sections in order, then issue order.
struct ErrorPlace {
  int32_t section = -1;
  int32_t instance = -1;
  int32_t endpoint = -1;
  auto operator<=>(const ErrorPlace&) const = default;
};

class ErrorList {
 public:
  bool ok() const { return total_ == 0; }
  int64_t total() const { return total_; }

  void Add(PlanRule rule, std::string message);
  // `key` says what makes two errors one; the message is made only when it will be shown. A content
  // error of a read may be taken back: `read` names that read, 0 for others.
  void AddOnce(PlanRule rule, uint64_t key, const ErrorPlace& place, uint64_t read,
               absl::FunctionRef<std::string()> message);
  bool Has(uint64_t key) const { return keys_.contains(key); }
  // A race makes what `read` found there a consequence.
  void RetractRead(uint64_t read);

  // The first 20, in order.
  std::vector<PlanError> Sorted() const;

 private:
  struct Entry {
    PlanError error;
    ErrorPlace place;
    uint64_t read = 0;
  };
  std::vector<Entry> entries_;  // a few more than are shown, since some are taken back
  absl::flat_hash_set<uint64_t> keys_;
  int64_t total_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_ERROR_LIST_H_
