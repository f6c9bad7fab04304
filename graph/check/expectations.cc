// An instance (node, microbatch) has one meaning in a step, whoever computes it and however often:
// the node applied to what its inputs stand for, where params have the version of the place in the
// schedule that computes the instance first (in the first program that does). Recomputing it later,
// after an update, must therefore read the old version. An instance that no schedule computes may
// still be read when the bytes are right - computed in init, or for another microbatch from the
// same terms; its params have the version of the place that reads it.
//
// Evaluation is memoized, with an explicit stack: graphs are deep. Usually instances are asked for
// in the order of their computation, and every input is known.
#include "graph/check/expectations.h"

#include <algorithm>

namespace millrace {

Expectations::Expectations(const PlanModel& model, const MeshClasses& classes,
                           const SectionIndex& index, const ParamTerms& start, Terms& terms)
    : model_(model), classes_(classes), index_(index), start_(start), terms_(terms) {}

int32_t Expectations::LeafTerm(int32_t coordinate, ValueRef ref, int32_t microbatch) {
  const Value& value = model_.graphs.value(ref);
  const TermKind kind = value.kind == ValueKind::kInput   ? TermKind::kInput
                        : value.kind == ValueKind::kParam ? TermKind::kParam
                                                          : TermKind::kConstant;
  // An input without dims is one for all microbatches.
  const bool per_microbatch = kind == TermKind::kInput && value.type.shape.rank() > 0;
  // What is not sharded is the same on all devices.
  int32_t place = -1;
  const Graph& graph = model_.plan->graph;
  const auto sharding = graph.shardings.find(ref.value);
  if (ref.graph == 0 && sharding != graph.shardings.end()) {
    std::vector<int64_t> at = classes_.coordinates[coordinate];
    if (graph.mesh == model_.plan->mesh) {
      for (size_t axis = 0; axis < at.size(); ++axis) {
        if (sharding->second.axes[axis].kind == AxisSharding::Kind::kReplicate) at[axis] = 0;
      }
    }
    place = static_cast<int32_t>(LinearCoordinate(at, model_.plan->mesh));
  }
  return terms_.Leaf(kind, model_.graphs.GlobalValue(ref), per_microbatch ? microbatch : 0, place);
}

int32_t Expectations::TripTerm(ValueRef value, int32_t microbatch) {
  return terms_.Leaf(TermKind::kTrip, model_.graphs.GlobalValue(value), microbatch, -1);
}

int32_t Expectations::TermOf(int32_t coordinate, ValueRef value, int32_t microbatch,
                             SchedulePosition at) {
  return Resolve(SourceOf(coordinate, value, microbatch, at));
}

int32_t Expectations::ApplicationOf(int32_t coordinate, int32_t global_node, int32_t microbatch,
                                    SchedulePosition at) {
  return Evaluate(KeyOf(coordinate, global_node, microbatch, at));
}

std::span<const int32_t> Expectations::InputsOf(int32_t application, int32_t coordinate) {
  const int32_t node = terms_.application(application).node;
  const std::span<const int32_t> all = terms_.children(application);
  if (!IsCollective(node)) return all;
  const size_t count = model_.graphs.nodes[node].node->inputs.size();
  return all.subspan(RankOf(node, coordinate) * count, count);
}

int32_t Expectations::NewestParam(int32_t coordinate, ValueId param, int32_t program, bool& fired) {
  fired = false;
  const int32_t start = start_.at(coordinate, model_.graphs.param_place[param.index]);
  const int32_t update = model_.graphs.update_of[param.index];
  if (update < 0 || index_.section != Section::kStep) return start;
  const ValueRef value{0, model_.plan->graph.updates[update].value};
  const auto& firings = index_.programs[program].firings[update];
  fired = !firings.empty();
  // A value nobody computes takes effect at the end: as of the last microbatch, but with params as
  // they were, since updates do not see each other.
  return TermOf(coordinate, value,
                fired ? firings.back().microbatch : model_.plan->microbatches - 1, {program, 0});
}

Expectations::Source Expectations::SourceOf(int32_t coordinate, ValueRef ref, int32_t microbatch,
                                            SchedulePosition at) {
  // A body's input is what the call passes for it, or what a loop gives it for one trip.
  while (ref.graph != 0 && model_.graphs.value(ref).kind == ValueKind::kInput) {
    const GraphEntry& graph = model_.graphs.graphs[ref.graph];
    const Node& call = model_.graphs.graphs[graph.parent].graph->node(graph.parent_node);
    const int32_t operand = graph.passed[ref.value.index];
    if (operand < 0) return {.term = TripTerm(ref, microbatch)};
    if (!call.inputs[operand].valid()) return {};
    ref = {graph.parent, call.inputs[operand]};
  }
  switch (model_.graphs.value(ref).kind) {
    case ValueKind::kInput:
    case ValueKind::kConstant:
      return {.term = LeafTerm(coordinate, ref, microbatch)};
    case ValueKind::kParam:
      return ParamSource(coordinate, ref.value, at);
    case ValueKind::kResult:
      return ResultSource(coordinate, ref, microbatch, at);
  }
  return {};
}

Expectations::Source Expectations::ParamSource(int32_t coordinate, ValueId param,
                                               SchedulePosition at) {
  const int32_t update = model_.graphs.update_of[param.index];
  if (update >= 0) {
    const auto& firings = index_.programs[at.program].firings[update];
    const auto next = std::lower_bound(firings.begin(), firings.end(), at.item,
                                       [](const auto& f, int32_t item) { return f.item < item; });
    if (next != firings.begin()) {
      const ValueRef value{0, model_.plan->graph.updates[update].value};
      return ResultSource(coordinate, value, std::prev(next)->microbatch, at);
    }
  }
  return {.term = start_.at(coordinate, model_.graphs.param_place[param.index])};
}

Expectations::Source Expectations::ResultSource(int32_t coordinate, ValueRef ref,
                                                int32_t microbatch, SchedulePosition at) {
  const Value& value = model_.graphs.value(ref);
  const int32_t node = model_.graphs.GlobalNode(ref.graph, value.producer);
  return {.is_node = true,
          .node = KeyOf(coordinate, node, microbatch, at),
          .output = value.result_index};
}

Expectations::Key Expectations::KeyOf(int32_t coordinate, int32_t node, int32_t microbatch,
                                      SchedulePosition at) const {
  const NodeExecution* first = index_.FindExecution(node, microbatch);
  if (first != nullptr) return {coordinate, node, microbatch, first->program, first->item};
  // Positions between two updates see the same.
  const std::vector<int32_t>& before = index_.programs[at.program].updates_before;
  if (at.item < std::ssize(before)) {
    at.item = static_cast<int32_t>(std::lower_bound(before.begin(), before.end(), before[at.item]) -
                                   before.begin());
  }
  return {coordinate, node, microbatch, at.program, at.item};
}

int32_t Expectations::Resolve(const Source& source) {
  if (!source.is_node) return source.term;
  return terms_.application(Evaluate(source.node)).first_result + source.output;
}

int32_t Expectations::Evaluate(const Key& key) {
  const auto known = applications_.find(key);
  if (known != applications_.end() && known->second != kInProgress) return known->second;
  stack_.assign(1, key);
  applications_[key] = kInProgress;
  while (!stack_.empty()) {
    const Key top = stack_.back();
    Key missing;
    if (TryEvaluate(top, missing)) {
      stack_.pop_back();
    } else {
      applications_[missing] = kInProgress;
      stack_.push_back(missing);
    }
  }
  return applications_.at(key);
}

bool Expectations::TryEvaluate(const Key& key, Key& missing) {
  const NodeEntry& entry = model_.graphs.nodes[key.node];
  children_.clear();
  int32_t salt = 0;
  if (IsCollective(key.node)) {
    for (int32_t member : MembersOf(key.node, key.coordinate)) {
      if (!AppendInputs(key, member, missing)) return false;
    }
    const CommKind kind = entry.traits->comm;
    const bool shares_differ = kind == CommKind::kReduceScatter || kind == CommKind::kAllToAll;
    if (shares_differ) salt = RankOf(key.node, key.coordinate);
  } else if (!AppendInputs(key, key.coordinate, missing)) {
    return false;
  }
  const int32_t num_results = static_cast<int32_t>(entry.node->outputs.size());
  applications_[key] = entry.deterministic
                           ? terms_.Apply(key.node, children_, salt, num_results, key.microbatch)
                           : terms_.ApplyAnew(key.node, children_, num_results, key.microbatch);
  return true;
}

bool Expectations::AppendInputs(const Key& key, int32_t coordinate, Key& missing) {
  const NodeEntry& entry = model_.graphs.nodes[key.node];
  for (ValueId in : entry.node->inputs) {
    int32_t term = kNothingTerm;
    if (in.valid()) {
      const Source source =
          SourceOf(coordinate, {entry.graph, in}, key.microbatch, {key.program, key.item});
      if (!source.is_node) {
        term = source.term;
      } else {
        const auto it = applications_.find(source.node);
        if (it == applications_.end()) {
          missing = source.node;
          return false;
        }
        // A cycle: the schedule computes an update from what reads the updated param. No bytes hold
        // that, which kNothingTerm says.
        if (it->second != kInProgress) {
          term = terms_.application(it->second).first_result + source.output;
        }
      }
    }
    children_.push_back(term);
  }
  return true;
}

bool Expectations::IsCollective(int32_t node) const {
  const OpTraits* traits = model_.graphs.nodes[node].traits;
  if (traits == nullptr || model_.graphs.nodes[node].graph != 0) return false;
  return traits->comm != CommKind::kNone && traits->comm != CommKind::kPublish &&
         traits->comm != CommKind::kTakeLatest;
}

const std::vector<int32_t>& Expectations::MembersOf(int32_t node, int32_t coordinate) {
  std::vector<int> axes;
  CommAxes(*model_.graphs.nodes[node].node, model_.plan->mesh, axes);
  const auto rest_of = [&](int32_t c) {
    std::vector<int64_t> rest = classes_.coordinates[c];
    for (int axis : axes) rest[axis] = 0;
    return LinearCoordinate(rest, model_.plan->mesh);
  };
  const int64_t rest = rest_of(coordinate);
  const auto [it, is_new] = members_.try_emplace({node, rest});
  if (is_new) {
    for (int32_t c = 0; c < std::ssize(classes_.coordinates); ++c) {
      if (rest_of(c) == rest) it->second.push_back(c);
    }
  }
  return it->second;
}

int32_t Expectations::RankOf(int32_t node, int32_t coordinate) {
  const std::vector<int32_t>& members = MembersOf(node, coordinate);
  return static_cast<int32_t>(std::ranges::lower_bound(members, coordinate) - members.begin());
}

}  // namespace millrace
