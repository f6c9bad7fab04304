#include "tools/plan_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// Two stretches of instructions this long are compared one by one; longer ones as a whole.
constexpr int64_t kMaxTableCells = 4'000'000;

class PlanComparison {
 public:
  PlanComparison(const PlanBundle& a, const PlanBundle& b) : a_(a), b_(b) {}

  std::vector<Difference> Run() && {
    const GraphDiff graphs = DiffGraphs(a_.graph, b_.graph);
    differences_ = graphs.differences;
    CallAsInA(graphs);
    Compare("microbatches", "plan", StrCat(a_.microbatches), StrCat(b_.microbatches));
    Compare("mesh", "plan", ToString(a_.mesh), ToString(b_.mesh));
    Compare("programs", "plan", StrCat(a_.programs.size()), StrCat(b_.programs.size()));
    for (size_t i = 0; i < std::min(a_.programs.size(), b_.programs.size()); ++i) {
      ComparePrograms(a_.programs[i], b_.programs[i]);
    }
    return std::move(differences_);
  }

 private:
  void Compare(std::string kind, std::string where, const std::string& of_a,
               const std::string& of_b) {
    if (of_a == of_b) return;
    differences_.push_back({std::move(kind), std::move(where), StrCat(of_a, " became ", of_b)});
  }

  // From here on b_ has the names of A, so that descriptions can be compared as text.
  void CallAsInA(const GraphDiff& graphs) {
    Graph& graph = b_.graph;
    std::set<std::string> taken;
    for (const Value& value : a_.graph.values) taken.insert(value.name);
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const ValueId in_a = graphs.value_in_a[i];
      std::string& name = graph.values[i].name;
      name = in_a.valid()           ? a_.graph.value(in_a).name
             : taken.contains(name) ? StrCat(name, " of B")
                                    : name;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const NodeId in_a = graphs.node_in_a[i];
      if (in_a.valid()) graph.nodes[i].name = a_.graph.node(in_a).name;
    }
  }

  void ComparePrograms(const Program& a, const Program& b) {
    Compare("device", a.name, StrCat(a.device_kind, ":", ToString(a.device_index, a_.mesh)),
            StrCat(b.device_kind, ":", ToString(b.device_index, b_.mesh)));
    CompareByKey("buffer", Buffers(a), Buffers(b));
    CompareByKey("slice", Slices(a_, a), Slices(b_, b));
    CompareByKey("stream", Streams(a), Streams(b));
    for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
      Compare("schedule", SectionText(section), Schedule(a, section), Schedule(b, section));
    }
    for (size_t i = 0; i < std::min(a.segments.size(), b.segments.size()); ++i) {
      CompareSegments(a, a.segments[i], b, b.segments[i]);
    }
  }

  static std::string SectionText(Section section) { return std::string(SectionName(section)); }

  using ByKey = std::map<std::string, std::multiset<std::string>>;

  static ByKey Buffers(const Program& program) {
    ByKey buffers;
    for (const PlanBuffer& buffer : program.buffers) {
      buffers[buffer.name].insert(
          StrCat(MemorySpaceName(buffer.space), " memory of ", buffer.size_bytes, " bytes"));
    }
    return buffers;
  }

  static ByKey Streams(const Program& program) {
    ByKey streams;
    for (const PlanStream& stream : program.streams) {
      streams[stream.name].insert(StrCat(StreamKindName(stream.kind), ", threads ", stream.threads,
                                         ", priority ", stream.priority));
    }
    return streams;
  }

  static ByKey Slices(const PlanBundle& plan, const Program& program) {
    const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
    ByKey slices;
    for (const Slice& slice : program.slices) {
      const bool scratch = !slice.value.value.valid();
      const std::string owner =
          scratch ? "scratch" : graphs[slice.value.graph]->value(slice.value.value).name;
      slices[slice.value.graph == 0 ? owner : StrCat(owner, " in graph ", slice.value.graph)]
          .insert(StrCat(
              program.buffers[slice.buffer.index].name, " at ",
              ToString(slice.offset_bytes, plan.mesh), ", ", slice.size_bytes, " bytes, ",
              LayoutName(slice.layout),
              slice.strides.empty() ? "" : StrCat(" by ", absl::StrJoin(slice.strides, ","))));
    }
    return slices;
  }

  static std::string Schedule(const Program& program, Section section) {
    std::vector<std::string> items;
    for (const ScheduleItem& item : program.schedule(section)) {
      items.push_back(StrCat(program.segments[item.segment.index].name, "(", item.microbatch, ")"));
    }
    return items.empty() ? "nothing" : absl::StrJoin(items, " ");
  }

  void CompareByKey(const std::string& kind, const ByKey& a, const ByKey& b) {
    const auto text = [](const std::multiset<std::string>& entries) {
      return absl::StrJoin(entries, "; ");
    };
    for (const auto& [key, entries] : a) {
      const auto found = b.find(key);
      if (found == b.end()) {
        differences_.push_back({kind, key, StrCat("only in A: ", text(entries))});
      } else {
        Compare(kind, key, text(entries), text(found->second));
      }
    }
    for (const auto& [key, entries] : b) {
      if (!a.contains(key))
        differences_.push_back({kind, key, StrCat("only in B: ", text(entries))});
    }
  }

  using Lines = std::vector<std::string>;

  // Instructions of one segment, stream by stream, by the streams' names.
  static std::map<std::string, Lines> Instructions(const PlanBundle& plan, const Program& program,
                                                   const Segment& segment) {
    std::map<std::string, Lines> by_stream;
    for (const Instruction& instruction : segment.instructions) {
      by_stream[program.streams[instruction.stream.index].name].push_back(
          DescribeInstruction(plan, program, instruction));
    }
    return by_stream;
  }

  void CompareSegments(const Program& program_a, const Segment& a, const Program& program_b,
                       const Segment& b) {
    std::map<std::string, Lines> of_a = Instructions(a_, program_a, a);
    std::map<std::string, Lines> of_b = Instructions(b_, program_b, b);
    std::set<std::string> streams;
    for (const auto& [stream, lines] : of_a) streams.insert(stream);
    for (const auto& [stream, lines] : of_b) streams.insert(stream);
    for (const std::string& stream : streams) {
      CompareLines(StrCat(a.name, "/", stream), of_a[stream], of_b[stream]);
    }
  }

  // What a longest common subsequence leaves out.
  void CompareLines(const std::string& where, const Lines& a, const Lines& b) {
    size_t begin = 0, a_end = a.size(), b_end = b.size();
    while (begin < std::min(a_end, b_end) && a[begin] == b[begin]) ++begin;
    while (a_end > begin && b_end > begin && a[a_end - 1] == b[b_end - 1]) --a_end, --b_end;
    const size_t rows = a_end - begin, columns = b_end - begin;
    const auto only = [&](const char* side, const std::string& line) {
      differences_.push_back({"instruction", where, StrCat("only in ", side, ": ", line)});
    };
    std::vector<int32_t> common;  // of what is left from (row, column) on
    const bool tabulate = static_cast<int64_t>((rows + 1) * (columns + 1)) <= kMaxTableCells;
    if (tabulate) common.resize((rows + 1) * (columns + 1));
    const auto at = [&](size_t i, size_t j) -> int32_t& { return common[i * (columns + 1) + j]; };
    for (size_t i = rows; tabulate && i-- > 0;) {
      for (size_t j = columns; j-- > 0;) {
        at(i, j) = a[begin + i] == b[begin + j] ? at(i + 1, j + 1) + 1
                                                : std::max(at(i + 1, j), at(i, j + 1));
      }
    }
    size_t i = 0, j = 0;
    while (i < rows || j < columns) {
      if (tabulate && i < rows && j < columns && a[begin + i] == b[begin + j]) {
        ++i, ++j;
      } else if (i < rows && (j == columns || !tabulate || at(i + 1, j) >= at(i, j + 1))) {
        only("A", a[begin + i++]);
      } else {
        only("B", b[begin + j++]);
      }
    }
  }

  const PlanBundle& a_;
  PlanBundle b_;
  std::vector<Difference> differences_;
};

}  // namespace

std::vector<Difference> DiffPlans(const PlanBundle& a, const PlanBundle& b) {
  return PlanComparison(a, b).Run();
}

}  // namespace millrace
