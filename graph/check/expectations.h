// Expectations: which term each value of the graph stands for in one section: what a read of it
// must find. This is the meaning of the graph under the plan's schedule; no byte is looked at here.
#ifndef MILLRACE_GRAPH_CHECK_EXPECTATIONS_H_
#define MILLRACE_GRAPH_CHECK_EXPECTATIONS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/check/error_list.h"
#include "graph/check/mesh_classes.h"
#include "graph/check/plan_model.h"
#include "graph/check/section_index.h"
#include "graph/check/terms.h"

namespace millrace {

// Terms of all params at the start of a section, by coordinate and place in Graph::params.
struct ParamTerms {
  int32_t num_params = 0;
  std::vector<int32_t> terms;
  std::vector<int32_t> loaded;  // their terms as the session loads them
  int32_t& at(int32_t coordinate, int32_t param) { return terms[coordinate * num_params + param]; }
  int32_t at(int32_t coordinate, int32_t param) const {
    return terms[coordinate * num_params + param];
  }
};

// Where in the schedules something is looked at: that decides which version of a param it sees.
struct SchedulePosition {
  int32_t program = 0;
  int32_t item = 0;
};

class Expectations {
 public:
  Expectations(const PlanModel& model, const MeshClasses& classes, const SectionIndex& index,
               const ParamTerms& start, Terms& terms);

  // What a session writes: inputs, params as loaded, constants.
  int32_t LeafTerm(int32_t coordinate, ValueRef value, int32_t microbatch);
  // What a loop's body finds in one of its inputs in the trip at hand, and what a stack, an output
  // of the loop, holds of earlier trips.
  int32_t TripTerm(ValueRef value, int32_t microbatch);

  int32_t TermOf(int32_t coordinate, ValueRef value, int32_t microbatch, SchedulePosition at);
  // The node's application. Its children are the terms of its inputs (kNothingTerm where it has
  // none); those of a collective the inputs of all members, one after another.
  int32_t ApplicationOf(int32_t coordinate, int32_t global_node, int32_t microbatch,
                        SchedulePosition at);
  // Inputs of this member among the children.
  std::span<const int32_t> InputsOf(int32_t application, int32_t coordinate);

  // The newest version of a param when the section has ended, as `program` knows it; `fired` tells
  // whether the program computes it.
  int32_t NewestParam(int32_t coordinate, ValueId param, int32_t program, bool& fired);

 private:
  struct Key {
    int32_t coordinate, node, microbatch, program, item;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.coordinate, k.node, k.microbatch, k.program, k.item);
    }
  };
  // Either a term, or an output of a node.
  struct Source {
    int32_t term = kNothingTerm;
    bool is_node = false;
    Key node = {};
    int32_t output = 0;
  };

  Source SourceOf(int32_t coordinate, ValueRef value, int32_t microbatch, SchedulePosition at);
  Source ParamSource(int32_t coordinate, ValueId param, SchedulePosition at);
  Source ResultSource(int32_t coordinate, ValueRef value, int32_t microbatch, SchedulePosition at);
  Key KeyOf(int32_t coordinate, int32_t node, int32_t microbatch, SchedulePosition at) const;
  int32_t Resolve(const Source& source);

  int32_t Evaluate(const Key& key);
  // Evaluates `key` from what is known; when something is missing, returns false and sets
  // `missing`.
  bool TryEvaluate(const Key& key, Key& missing);
  bool AppendInputs(const Key& key, int32_t coordinate, Key& missing);

  bool IsCollective(int32_t node) const;
  // Coordinates that meet in a collective node, ascending.
  const std::vector<int32_t>& MembersOf(int32_t node, int32_t coordinate);
  int32_t RankOf(int32_t node, int32_t coordinate);

  const PlanModel& model_;
  const MeshClasses& classes_;
  const SectionIndex& index_;
  const ParamTerms& start_;
  Terms& terms_;
  static constexpr int32_t kInProgress = -1;
  absl::flat_hash_map<Key, int32_t> applications_;
  absl::flat_hash_map<std::pair<int32_t, int64_t>, std::vector<int32_t>> members_;
  std::vector<Key> stack_;
  std::vector<int32_t> children_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_EXPECTATIONS_H_
