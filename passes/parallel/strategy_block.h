// The best strategies of a block of variables together, all other variables being what they are.
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_BLOCK_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_BLOCK_H_

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "passes/parallel/strategy_random.h"
#include "passes/parallel/strategy_reduction.h"

namespace millrace {

class StrategyBlock {
 public:
  explicit StrategyBlock(const ReducedStrategies& reduced);

  // Makes a block of those `candidates` that can be solved together with tables of at most
  // 2^max_log2_cells cells; random ones of the others stay out.
  void Build(std::span<const int32_t> candidates, double max_log2_cells, StrategyRandom& random);

  // The variables in it.
  const std::vector<int32_t>& members() const { return members_; }

  // The strategy of each member, best by `unary` (of variable v's strategy s at
  // unary[unary_offset[v] + s]) and the tables of edges. Members keep their strategy in
  // `assignment` where no other is better. Valid until the next call.
  const std::vector<int32_t>& Solve(std::span<const double> unary,
                                    std::span<const int32_t> unary_offset,
                                    std::span<const int32_t> assignment);

  int64_t work() const { return work_; }  // elementary steps so far

 private:
  // Something that a bucket adds up: costs by the member itself (innermost) and later members.
  struct Factor {
    const double* table = nullptr;  // of an edge; null: a message, at `message` in messages_
    int64_t message = 0;
    int32_t first_stride = 0;  // its strides by dims of the scope, in strides_
  };
  // A member and all that touches it when it is eliminated.
  struct Bucket {
    int32_t size = 0;
    std::vector<int32_t>
        scope;  // later members (positions), latest first; what its message is over
    std::vector<Factor> factors;
    std::vector<int64_t> strides;  // [factor][dim of scope]
    int64_t message = 0;           // where its message begins in messages_
    int64_t cells = 1;             // of the message
    int32_t unary = 0;             // where its own costs begin in unary_
  };

  double WeightOf(int32_t local) const;
  void Eliminate(int32_t local);
  void LeaveOut(int32_t local);
  void Disconnect(int32_t local);
  void LayOut();
  void FillUnary(std::span<const double> unary, std::span<const int32_t> unary_offset,
                 std::span<const int32_t> assignment);
  void SendMessage(const Bucket& bucket);

  const ReducedStrategies& reduced_;
  int64_t work_ = 0;
  std::vector<int32_t> members_;   // in order of elimination
  std::vector<int32_t> position_;  // by variable: in members_, or -1

  // While the order is being found; candidates are numbered.
  std::vector<int32_t> candidates_;
  std::vector<int32_t> number_;  // by variable, or -1
  std::vector<std::vector<int32_t>> adjacent_;
  std::vector<double> log2_size_, weight_;
  std::vector<char> gone_;
  std::priority_queue<std::pair<double, int32_t>, std::vector<std::pair<double, int32_t>>,
                      std::greater<>>
      queue_;

  std::vector<Bucket> buckets_;
  size_t num_buckets_ = 0;  // buckets beyond are kept for their memory
  std::vector<double> messages_, unary_;
  std::vector<double> sums_;
  std::vector<int32_t> chosen_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_BLOCK_H_
