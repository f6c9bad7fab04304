// All three ways merge one allocation into another, at an offset. What must hold each time is that
// no byte is overwritten while somebody still reads what it held:
//  * In place: the operand's last access, and the result's first, are this one instruction; and all
//    before it were on its stream, for others may not have ended when it begins.
//  * Views: nobody writes to what is viewed from the view's birth to its death, and the view's own
//    bytes have no other writer.
//  * Copies: from the birth of what is copied until the copy nobody touches where it goes, and
//  after
//    the copy nobody writes there while the original lives.
// Lifetimes are by happens-before (lifetimes.h), so views are right between streams too. Copies are
// looked at in programs of one stream only. An instruction that goes leaves its stream's waits and
// records where they are, and so the order of all others.
//
// Merged allocations form groups, each in one of them. Of a group are known the accesses of the
// allocation itself, one by one, and the hull of its other members: enough for the questions, and
// constant in size. Groups live as long as any of their members, which later merges respect.
//
// A part keeps the whole alive and a whole takes up room before all its parts exist, so a view of
// several parts may cost memory: it is made unless it raises the greatest load of all moments.
// Parts at offsets that kernels do not like (kSliceAlignment) stay apart. O(n log n).
#include "passes/memory/coalesce.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "graph/view.h"
#include "ops/op_def.h"
#include "passes/memory/access_log.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/range_maximum.h"

namespace millrace {
namespace {

struct Touch {
  int32_t moment = 0;
  bool writes = false;
};

class Coalescer {
 public:
  Coalescer(std::span<const Graph* const> graphs, Program& program,
            std::span<const Allocation> allocations, std::vector<SlicePlace>& places)
      : graphs_(graphs),
        program_(program),
        allocations_(allocations),
        places_(places),
        log_(LogAccesses(program, graphs)),
        groups_(allocations.size()) {
    std::vector<int32_t> owners;
    for (const SlicePlace& place : places) owners.push_back(place.allocation);
    const std::vector<Lifetime> lifetimes =
        LifetimesOf(program, log_, owners, static_cast<int32_t>(allocations.size()));
    for (size_t a = 0; a < allocations.size(); ++a) {
      groups_[a].root = static_cast<int32_t>(a);
      groups_[a].lifetime = lifetimes[a];
    }
    IndexTouches();
  }

  void Run() {
    // Later copies first: a loop's last trip leaves its values where the first one found them.
    for (int32_t m = log_.num_moments(); m-- > 0 && program_.streams.size() == 1;) {
      if (const Copy* copy = BodyOf<Copy>(m)) MergeCopy(m, *copy);
    }
    for (int32_t m = 0; m < log_.num_moments(); ++m) {
      const Launch* launch = BodyOf<Launch>(m);
      if (launch == nullptr) continue;
      const OpDef& op = *FindOp(NodeOf(*launch).op);
      if (op.traits.view != ViewKind::kNone && MergeView(m, *launch, op.traits.view)) continue;
      for (const InPlacePair& pair : op.traits.in_place) MergeInPlace(m, *launch, op.traits, pair);
    }
    Finish();
  }

 private:
  // An allocation, and, while it is a root, what was merged into it.
  struct Group {
    int32_t root = -1;  // or a step on the way there
    int64_t shift_bytes = 0;
    Lifetime lifetime;
    Lifetime members = {std::numeric_limits<int32_t>::max(), 0};  // of the others in the group
    int32_t last_member_write = -1;
    int32_t stream = kNoStream;  // the one that touches it, apart from the session
  };
  static constexpr int32_t kNoStream = -1, kSeveralStreams = -2;

  // --- What is known ---
  template <typename T>
  const T* BodyOf(int32_t moment) const {
    const Instruction* instruction = log_.moments[moment].instruction;
    return instruction != nullptr ? std::get_if<T>(&instruction->body) : nullptr;
  }
  const Node& NodeOf(const Launch& launch) const {
    return graphs_[launch.graph]->node(launch.node);
  }
  const Slice& SliceOf(SliceId id) const { return program_.slices[id.index]; }
  const TensorType& TypeOf(SliceId id) const {
    const ValueRef ref = SliceOf(id).value;
    return graphs_[ref.graph]->value(ref.value).type;
  }
  bool IsPermanent(int32_t a) const {
    return groups_[a].lifetime == Lifetime{0, log_.num_moments()};
  }
  BufferId BufferOf(int32_t a) const { return allocations_[a].buffer; }

  // Touches of allocation a: touches_[first_touch_[a]] up to those of a + 1.
  void IndexTouches() {
    first_touch_.assign(allocations_.size() + 1, 0);
    for (const Access& access : log_.accesses) {
      ++first_touch_[places_[access.slice.index].allocation + 1];
    }
    for (size_t a = 0; a < allocations_.size(); ++a) first_touch_[a + 1] += first_touch_[a];
    touches_.resize(log_.accesses.size());
    std::vector<int32_t> next(first_touch_.begin(), first_touch_.end() - 1);
    for (int32_t m = 0; m < log_.num_moments(); ++m) {
      for (const Access& access : log_.AccessesOf(m)) {
        const int32_t a = places_[access.slice.index].allocation;
        touches_[next[a]++] = {m, access.writes};
        AddStream(groups_[a], log_.moments[m].stream);
      }
    }
  }
  static void AddStream(Group& group, int32_t stream) {
    if (stream == kNoStream || stream == group.stream) return;
    group.stream = group.stream == kNoStream ? stream : kSeveralStreams;
  }
  std::span<const Touch> TouchesOf(int32_t a) const {
    return std::span(touches_).subspan(first_touch_[a], first_touch_[a + 1] - first_touch_[a]);
  }
  // Those of moments [from, until).
  std::span<const Touch> TouchesOf(int32_t a, int32_t from, int32_t until) const {
    const std::span<const Touch> all = TouchesOf(a);
    const auto first = std::ranges::lower_bound(all, from, {}, &Touch::moment);
    const auto last = std::ranges::lower_bound(all, until, {}, &Touch::moment);
    return all.subspan(first - all.begin(), std::max<int64_t>(0, last - first));
  }
  // The moment of the one write to an allocation; -1 when there are more.
  int32_t OnlyWrite(int32_t a) const {
    int32_t moment = -1;
    for (const Touch& touch : TouchesOf(a)) {
      if (!touch.writes) continue;
      if (moment >= 0) return -1;
      moment = touch.moment;
    }
    return moment;
  }

  static bool Meet(const Lifetime& life, int32_t from, int32_t until) {
    return life.lower < until && from < life.upper;
  }
  // Whether anybody writes to the group in [from, until).
  bool MayBeWritten(int32_t root, int32_t from, int32_t until) const {
    const Group& group = groups_[root];
    if (group.last_member_write >= from && Meet(group.members, from, until)) return true;
    return std::ranges::any_of(TouchesOf(root, from, until), &Touch::writes);
  }

  // --- Groups ---
  SlicePlace Find(SlicePlace place) {
    int32_t a = place.allocation;
    while (groups_[a].root != a) {
      Group& group = groups_[a];
      Group& above = groups_[group.root];
      if (above.root != group.root) {  // halve the path
        group.shift_bytes += above.shift_bytes;
        group.root = above.root;
      }
      place.offset_bytes += group.shift_bytes;
      a = group.root;
    }
    return {a, place.offset_bytes};
  }
  SlicePlace PlaceOf(SliceId slice) { return Find(places_[slice.index]); }

  // The allocation that the slice is all of, and which is nobody's part; -1 when there is none.
  int32_t WholeOf(SliceId slice) {
    const SlicePlace place = PlaceOf(slice);
    const bool whole = place.offset_bytes == 0 && IsDense(slice) &&
                       SliceOf(slice).size_bytes == allocations_[place.allocation].size_bytes;
    return whole ? place.allocation : -1;
  }
  // Without gaps, in an order that is known.
  bool IsDense(SliceId slice) const {
    return SliceOf(slice).layout != Layout::kPacked && SliceOf(slice).strides.empty();
  }
  bool IsRowMajor(SliceId slice) const {
    return IsDense(slice) && SliceOf(slice).layout == Layout::kStrided;
  }
  bool SameLayout(SliceId a, SliceId b) const { return SliceOf(a).layout == SliceOf(b).layout; }
  // WholeOf, if nothing was merged into it or it into anything: all is known of it.
  int32_t LoneOf(SliceId slice) {
    const int32_t a = WholeOf(slice);
    return a == places_[slice.index].allocation && groups_[a].members.upper == 0 ? a : -1;
  }

  void Merge(int32_t part, int32_t root, int64_t shift_bytes) {
    Group &from = groups_[part], &to = groups_[root];
    from.root = root;
    from.shift_bytes = shift_bytes;
    for (const Lifetime& life : {from.lifetime, from.members}) {
      to.members.lower = std::min(to.members.lower, life.lower);
      to.members.upper = std::max(to.members.upper, life.upper);
    }
    for (const Touch& touch : TouchesOf(part)) {
      if (touch.writes) to.last_member_write = std::max(to.last_member_write, touch.moment);
    }
    to.last_member_write = std::max(to.last_member_write, from.last_member_write);
    AddStream(to, from.stream);
    to.lifetime.lower = std::min(to.lifetime.lower, from.lifetime.lower);
    to.lifetime.upper = std::max(to.lifetime.upper, from.lifetime.upper);
  }

  // --- Loads ---
  // By moment, of the groups there are now; kept up to date from then on. Few graphs need them.
  void SumLoads() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      std::vector<int64_t> load(log_.num_moments() + 1, 0);
      for (size_t a = 0; a < allocations_.size(); ++a) {
        const Group& group = groups_[a];
        const bool is_root = group.root == static_cast<int32_t>(a);
        if (!is_root || allocations_[a].buffer.index != static_cast<int32_t>(b)) continue;
        load[group.lifetime.lower] += allocations_[a].size_bytes;
        load[group.lifetime.upper] -= allocations_[a].size_bytes;
      }
      for (size_t m = 1; m < load.size(); ++m) load[m] += load[m - 1];
      loads_.emplace_back(load);
    }
  }
  void AddLoad(int32_t root, const Lifetime& life, int64_t size_bytes) {
    if (life.lower >= life.upper) return;
    loads_[BufferOf(root).index].Add(life.lower, life.upper - 1, size_bytes);
  }

  struct Part {
    int32_t allocation = 0;
    int64_t shift_bytes = 0;
  };
  // What merging takes from all moments together with what it adds; `sign` -1 takes it back.
  void ChangeLoads(int32_t root, std::span<const Part> parts, int64_t sign) {
    Lifetime hull = groups_[root].lifetime;
    for (const auto& [a, shift_bytes] : parts) {
      hull.lower = std::min(hull.lower, groups_[a].lifetime.lower);
      hull.upper = std::max(hull.upper, groups_[a].lifetime.upper);
      AddLoad(root, groups_[a].lifetime, -sign * allocations_[a].size_bytes);
    }
    AddLoad(root, groups_[root].lifetime, -sign * allocations_[root].size_bytes);
    AddLoad(root, hull, sign * allocations_[root].size_bytes);
  }

  // Two of one size, each in use until or from when the other is: never worse.
  void MergeWhole(int32_t part, int32_t root) {
    const Part whole{part, 0};
    if (!loads_.empty()) ChangeLoads(root, std::span(&whole, 1), 1);
    Merge(part, root, 0);
  }

  // Merges unless that needs more memory at the worst moment.
  bool MergeIfNoWorse(int32_t root, std::span<const Part> parts) {
    if (loads_.empty()) SumLoads();
    const RangeMaximum& load = loads_[BufferOf(root).index];
    const int32_t end = log_.num_moments();
    const int64_t before = load.Find(0, end).first;
    ChangeLoads(root, parts, 1);
    if (load.Find(0, end).first > before) {
      ChangeLoads(root, parts, -1);
      return false;
    }
    for (const Part& part : parts) Merge(part.allocation, root, part.shift_bytes);
    return true;
  }

  // --- Copies ---
  void MergeCopy(int32_t m, const Copy& copy) {
    const int32_t from = LoneOf(copy.from), to = WholeOf(copy.to);
    if (from < 0 || to < 0 || from == to || BufferOf(from) != BufferOf(to) || IsPermanent(from) ||
        !SameLayout(copy.from, copy.to) ||
        allocations_[from].size_bytes != allocations_[to].size_bytes) {
      return;
    }
    const int32_t birth = OnlyWrite(from);
    const Lifetime life = groups_[from].lifetime;
    if (birth < 0 || birth != life.lower || birth >= m) return;
    if (log_.moments[birth].loop != log_.moments[m].loop) return;
    if (!TouchesOf(to, birth + 1, m).empty() || Meet(groups_[to].members, birth, m) ||
        MayBeWritten(to, m + 1, life.upper)) {
      return;
    }
    if (!TouchesOf(to, birth, birth + 1).empty() && !WritesOver(birth, from, to)) return;
    MergeWhole(from, to);
    gone_.insert(log_.moments[m].instruction);
  }

  // Whether the only instruction of the moment may write `result` over its operand `old`.
  bool WritesOver(int32_t moment, int32_t result, int32_t old) {
    const Launch* launch = BodyOf<Launch>(moment);
    if (launch == nullptr) return false;
    const OpTraits& traits = FindOp(NodeOf(*launch).op)->traits;
    for (size_t k = 0; k < launch->outputs.size(); ++k) {
      if (!launch->outputs[k].valid() || PlaceOf(launch->outputs[k]).allocation != result) continue;
      return OnlyPairsTouch(*launch, traits, static_cast<int>(k), old);
    }
    return false;
  }

  // Every operand in `old` is all of it, and one that `output` may be written over.
  bool OnlyPairsTouch(const Launch& launch, const OpTraits& traits, int output, int32_t old) {
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      const SliceId input = launch.inputs[i];
      if (!input.valid() || PlaceOf(input).allocation != old) continue;
      const InPlacePair pair{output, static_cast<int>(i)};
      if (std::ranges::find(traits.in_place, pair) == traits.in_place.end() ||
          WholeOf(input) != old || TypeOf(input) != TypeOf(launch.outputs[output]) ||
          !SameLayout(input, launch.outputs[output])) {
        return false;
      }
    }
    return true;
  }

  // --- In place ---
  void MergeInPlace(int32_t m, const Launch& launch, const OpTraits& traits, InPlacePair pair) {
    if (pair.output >= std::ssize(launch.outputs) || pair.input >= std::ssize(launch.inputs))
      return;
    const SliceId out = launch.outputs[pair.output], in = launch.inputs[pair.input];
    if (!out.valid() || !in.valid()) return;
    const int32_t result = LoneOf(out), old = WholeOf(in);
    if (result < 0 || old < 0 || result == old || BufferOf(result) != BufferOf(old)) return;
    if (groups_[result].lifetime.lower != m || groups_[old].lifetime.upper != m + 1) return;
    if (groups_[old].stream != log_.moments[m].stream && groups_[old].stream != kNoStream) return;
    for (SliceId other : launch.outputs) {
      if (other.valid() && PlaceOf(other).allocation == old) return;
    }
    if (!OnlyPairsTouch(launch, traits, pair.output, old)) return;
    MergeWhole(result, old);
  }

  // --- Views ---
  // True when the instruction is not needed any more.
  bool MergeView(int32_t m, const Launch& launch, ViewKind kind) {
    const bool merged =
        kind == ViewKind::kJoin ? MergeJoin(m, launch) : MergePieces(m, launch, kind);
    if (merged) gone_.insert(log_.moments[m].instruction);
    return merged;
  }

  // An allocation that this instruction, and no other, writes.
  int32_t FreshOf(int32_t m, SliceId out) {
    const int32_t a = LoneOf(out);
    const bool fresh = a >= 0 && groups_[a].lifetime.lower == m && OnlyWrite(a) == m;
    return fresh ? a : -1;
  }

  bool HasOrder(const Node& node) const { return !node.after.empty(); }

  // The outputs, in the input.
  bool MergePieces(int32_t m, const Launch& launch, ViewKind kind) {
    const Node& node = NodeOf(launch);
    if (HasOrder(node) || !IsRowMajor(launch.inputs[0])) return false;
    const SlicePlace whole = PlaceOf(launch.inputs[0]);
    std::vector<Part> parts;
    for (size_t k = 0; k < launch.outputs.size(); ++k) {
      if (!launch.outputs[k].valid() || SliceOf(launch.outputs[k]).size_bytes == 0) continue;
      if (!IsRowMajor(launch.outputs[k])) return false;
      const int32_t a = FreshOf(m, launch.outputs[k]);
      const std::vector<ViewPart> view =
          ViewPartsOf(kind, *graphs_[launch.graph], node, static_cast<int>(k));
      if (a < 0 || view.size() != 1 || a == whole.allocation ||
          BufferOf(a) != BufferOf(whole.allocation) ||
          MayBeWritten(whole.allocation, m, groups_[a].lifetime.upper)) {
        return false;
      }
      parts.push_back({a, whole.offset_bytes + view[0].from_bytes});
    }
    if (parts.empty() || !AreAligned(parts)) return false;
    if (kind != ViewKind::kWhole || whole.offset_bytes != 0 ||
        allocations_[parts[0].allocation].size_bytes != allocations_[whole.allocation].size_bytes) {
      return MergeIfNoWorse(whole.allocation, parts);
    }
    MergeWhole(parts[0].allocation, whole.allocation);
    return true;
  }

  // The inputs, in the output.
  bool MergeJoin(int32_t m, const Launch& launch) {
    const Node& node = NodeOf(launch);
    const int32_t whole = FreshOf(m, launch.outputs[0]);
    if (whole < 0 || HasOrder(node) || !IsRowMajor(launch.outputs[0])) return false;
    std::vector<Part> parts;
    absl::flat_hash_set<int32_t> taken;
    for (const ViewPart& part : ViewPartsOf(ViewKind::kJoin, *graphs_[launch.graph], node, 0)) {
      const int32_t a = WholeOf(launch.inputs[part.input]);
      if (a < 0 || !IsRowMajor(launch.inputs[part.input]) || IsPermanent(a) || BufferOf(a) != BufferOf(whole) || !taken.insert(a).second ||
          MayBeWritten(a, m, groups_[whole].lifetime.upper)) {
        return false;
      }
      parts.push_back({a, part.to_bytes});
    }
    return !parts.empty() && AreAligned(parts) && MergeIfNoWorse(whole, parts);
  }

  static bool AreAligned(std::span<const Part> parts) {
    return std::ranges::all_of(
        parts, [](const Part& part) { return part.shift_bytes % kSliceAlignment == 0; });
  }

  void Finish() {
    for (SlicePlace& place : places_) place = Find(place);
    for (Segment& segment : program_.segments) {
      std::erase_if(segment.instructions, [&](const Instruction& i) { return gone_.contains(&i); });
    }
  }

  const std::span<const Graph* const> graphs_;
  Program& program_;
  const std::span<const Allocation> allocations_;
  std::vector<SlicePlace>& places_;
  const AccessLog log_;
  std::vector<Group> groups_;  // by allocation
  std::vector<Touch> touches_;
  std::vector<int32_t> first_touch_;
  std::vector<RangeMaximum> loads_;  // by buffer and moment
  absl::flat_hash_set<const Instruction*> gone_;
};

}  // namespace

void Coalesce(std::span<const Graph* const> graphs, Program& program,
              std::span<const Allocation> allocations, std::vector<SlicePlace>& places) {
  Coalescer(graphs, program, allocations, places).Run();
}

}  // namespace millrace
