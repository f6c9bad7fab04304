// What must hold before a plan means anything. Errors here end the check: with an id out of range
// there is nothing to run.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "graph/check/plan_model.h"
#include "graph/strings.h"
#include "graph/verify.h"

namespace millrace {
namespace {

constexpr int32_t kMaxMicrobatches = 1 << 16;
constexpr int64_t kMaxDevices = int64_t{1} << 20;

class StructureChecker {
 public:
  StructureChecker(const PlanBundle& plan, PlanModel& model, ErrorList& errors)
      : plan_(plan), model_(model), errors_(errors) {}

  void CheckPrograms() {
    if (plan_.programs.empty()) Fail("the plan has no programs");
    CheckNamesDiffer(plan_.programs, "the plan", "program");
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      where_ = StrCat("program '", plan_.programs[p].name, "'");
      CheckProgram(plan_.programs[p]);
    }
  }

 private:
  void Fail(PlanRule rule, std::string what) { errors_.Add(rule, std::move(what)); }
  void Fail(std::string what) { Fail(PlanRule::kStructure, std::move(what)); }

  template <typename T>
  void CheckNamesDiffer(const std::vector<T>& items, const std::string& where, const char* what) {
    absl::flat_hash_set<std::string> names;
    for (const T& item : items) {
      if (!names.insert(item.name).second) {
        Fail(StrCat(where, ": two ", what, "s are called '", item.name, "'"));
      }
    }
  }

  void CheckProgram(const Program& program) {
    const int64_t before = errors_.total();
    if (!IsValidExpr(program.device_index, plan_.mesh)) {
      Fail(StrCat(where_, ": its device index uses a variable that does not exist"));
    }
    CheckNamesDiffer(program.buffers, where_, "buffer");
    CheckNamesDiffer(program.streams, where_, "stream");
    CheckNamesDiffer(program.segments, where_, "segment");
    for (const PlanBuffer& b : program.buffers) {
      if (b.size_bytes < 0 || b.size_bytes > kMaxBytes) {
        Fail(StrCat(where_, ": buffer '", b.name, "' of ", b.size_bytes, " bytes is not possible"));
      }
    }
    const int32_t p = static_cast<int32_t>(model_.footprints.size());
    model_.footprints.emplace_back();
    for (size_t s = 0; s < program.slices.size(); ++s) CheckSlice(program, s);
    if (errors_.total() != before) return;  // instructions would only repeat it
    for (size_t s = 0; s < program.segments.size(); ++s) CheckSegment(program, p, s);
    for (const Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
      CheckSchedule(program, section);
    }
    CheckBindings(program, program.loads, "load");
    CheckBindings(program, program.inputs, "input");
    CheckBindings(program, program.outputs, "output");
  }

  void CheckSlice(const Program& program, size_t s) {
    const Slice& slice = program.slices[s];
    Footprint& footprint = model_.footprints.back().emplace_back();
    const std::string where = StrCat(where_, ": slice ", s);
    if (!slice.buffer.valid() || slice.buffer.index >= std::ssize(program.buffers)) {
      Fail(StrCat(where, " is in no buffer (id ", slice.buffer.index, " of ",
                  program.buffers.size(), ")"));
      return;
    }
    if (!IsValidExpr(slice.offset_bytes, plan_.mesh)) {
      Fail(StrCat(where, ": its offset uses a variable that does not exist"));
      return;
    }
    const Value* value = nullptr;
    if (slice.value.value.valid()) {
      if (!model_.graphs.HasGraph(slice.value.graph) ||
          slice.value.value.index >=
              std::ssize(model_.graphs.graphs[slice.value.graph].graph->values)) {
        Fail(StrCat(where, " is of a value that does not exist (id ", slice.value.value.index,
                    " of graph ", slice.value.graph, ")"));
        return;
      }
      value = &model_.graphs.value(slice.value);
      if (!value->typed) {
        Fail(StrCat(where, ": value '", value->name, "' has no type"));
        return;
      }
    }
    const std::string problem = MakeFootprint(slice, value, footprint);
    if (problem.empty()) return;
    Fail(PlanRule::kBounds,
         StrCat("bounds in ", where, value != nullptr ? StrCat(" of '", value->name, "'") : "",
                " in buffer '", program.buffers[slice.buffer.index].name, "': ", problem));
  }

  void CheckSegment(const Program& program, int32_t p, size_t s) {
    const Segment& segment = program.segments[s];
    if (!model_.graphs.HasGraph(segment.graph)) {
      Fail(StrCat(where_, ": segment '", segment.name, "' is of graph ", segment.graph,
                  ", which does not exist"));
      return;
    }
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      CheckInstruction(model_, p, static_cast<int32_t>(s), static_cast<int32_t>(i), errors_);
    }
  }

  void CheckSchedule(const Program& program, Section section) {
    for (const ScheduleItem& item : program.schedule(section)) {
      if (!item.segment.valid() || item.segment.index >= std::ssize(program.segments)) {
        Fail(StrCat(where_, ": its ", SectionName(section),
                    " schedule runs a segment that does not exist (id ", item.segment.index, " of ",
                    program.segments.size(), ")"));
        continue;
      }
      const Segment& segment = program.segments[item.segment.index];
      if (segment.graph != 0) {
        Fail(StrCat(where_, ": its ", SectionName(section), " schedule runs segment '",
                    segment.name, "' of nested graph ", segment.graph, "; only a Call may"));
      }
      if (item.microbatch < 0 || item.microbatch >= plan_.microbatches) {
        Fail(StrCat(where_, ": its ", SectionName(section), " schedule runs segment '",
                    segment.name, "' for microbatch ", item.microbatch, " of ",
                    plan_.microbatches));
      }
    }
  }

  void CheckBindings(const Program& program, const std::vector<Binding>& bindings,
                     std::string_view what) {
    for (const Binding& binding : bindings) {
      const Graph& graph = plan_.graph;
      if (!binding.value.valid() || binding.value.index >= std::ssize(graph.values) ||
          !binding.slice.valid() || binding.slice.index >= std::ssize(program.slices)) {
        Fail(StrCat(where_, ": an ", what, " binding's value or slice does not exist"));
        continue;
      }
      const Value& value = graph.value(binding.value);
      (what == "output" ? model_.is_output : model_.is_filled)[binding.value.index] = true;
      const Slice& slice = program.slices[binding.slice.index];
      const std::string where = StrCat(where_, ": ", what, " binding of '", value.name, "'");
      if (slice.value != ValueRef{0, binding.value})
        Fail(StrCat(where, " has another value's slice"));
      if (!FitsKind(value, binding.value, what)) {
        Fail(PlanRule::kBinding,
             StrCat("binding in ", where, ", which is no ",
                    what == "load" ? "param or constant" : what, " of the graph"));
      }
      if (slice.layout != Layout::kStrided) {
        Fail(StrCat(where, " has layout ", LayoutName(slice.layout),
                    "; the session moves strided values only"));
      }
      const PlanBuffer& buffer = program.buffers[slice.buffer.index];
      if (buffer.space == MemorySpace::kFile) {
        Fail(PlanRule::kSpace, StrCat("space in ", where, ": buffer '", buffer.name,
                                      "' is a file; the session reaches device and host memory"));
      }
    }
  }

  bool FitsKind(const Value& value, ValueId id, std::string_view what) const {
    if (what == "input") return value.kind == ValueKind::kInput;
    if (what == "load") {
      return value.kind == ValueKind::kParam || value.kind == ValueKind::kConstant;
    }
    const std::vector<ValueId>& outputs = plan_.graph.outputs;
    return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
  }

  const PlanBundle& plan_;
  PlanModel& model_;
  ErrorList& errors_;
  std::string where_;
};

void CheckMesh(const PlanBundle& plan, ErrorList& errors) {
  int64_t devices = 1;
  for (const MeshAxis& axis : plan.mesh.axes) {
    if (axis.size < 1 || axis.size > kMaxDevices || (devices *= axis.size) > kMaxDevices) {
      errors.Add(PlanRule::kStructure,
                 StrCat("the mesh ", ToString(plan.mesh), " must have between 1 and ", kMaxDevices,
                        " devices"));
      return;
    }
  }
  const bool is_spread = plan.graph.local_types || !plan.graph.shardings.empty();
  if (is_spread && plan.graph.mesh != plan.mesh) {
    errors.Add(PlanRule::kStructure,
               StrCat("the plan's mesh is '", ToString(plan.mesh),
                      "', but its graph is spread over '", ToString(plan.graph.mesh), "'"));
  }
}

}  // namespace

bool IsHostReachable(const Program& program, const PlanBuffer& buffer) {
  return buffer.space == MemorySpace::kHost ||
         (buffer.space == MemorySpace::kDevice && program.device_kind == "cpu");
}

bool IsDeviceReachable(const Program& program, const PlanBuffer& buffer) {
  return buffer.space == MemorySpace::kDevice ||
         (buffer.space == MemorySpace::kHost && program.device_kind == "cpu");
}

bool IsValidExpr(const LinearExpr& expr, const Mesh& mesh) {
  return std::ranges::all_of(expr.terms, [&](const LinearTerm& term) {
    const bool known = term.variable == kMicrobatchVar ||
                       (term.variable >= 0 && term.variable < std::ssize(mesh.axes));
    return known && term.modulus >= 0;
  });
}

std::string InstructionPlace(const Program& program, int32_t segment, int32_t index) {
  const Segment& s = program.segments[segment];
  return StrCat("program '", program.name, "' segment '", s.name, "' instruction ", index, " (",
                InstructionKindName(s.instructions[index].body), ")");
}

PlanModel CheckStructure(const PlanBundle& plan, const OpTraitsTable& traits, ErrorList& errors) {
  PlanModel model;
  model.plan = &plan;
  Diagnostics diagnostics;
  VerifyGraph(plan.graph, diagnostics);
  for (const Diagnostic& d : diagnostics.shown()) {
    errors.Add(PlanRule::kStructure, StrCat("the embedded graph: ", FormatDiagnostic(d)));
  }
  if (plan.microbatches < 1 || plan.microbatches > kMaxMicrobatches) {
    errors.Add(PlanRule::kStructure, StrCat("the plan has ", plan.microbatches,
                                            " microbatches; expected 1 to ", kMaxMicrobatches));
  }
  CheckMesh(plan, errors);
  if (!errors.ok()) return model;
  model.graphs = IndexGraphs(plan.graph, traits);
  model.is_filled.assign(plan.graph.values.size(), false);
  model.is_output.assign(plan.graph.values.size(), false);
  StructureChecker(plan, model, errors).CheckPrograms();
  return model;
}

}  // namespace millrace
