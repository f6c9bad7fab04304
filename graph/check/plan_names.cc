#include "graph/check/plan_names.h"

#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {

std::string PlanNames::Coordinate(std::span<const int64_t> coordinate) const {
  std::string text;
  const std::vector<MeshAxis>& axes = model_.plan->mesh.axes;
  for (size_t i = 0; i < axes.size(); ++i) {
    StrAppend(&text, i == 0 ? " at " : ",", axes[i].name, "=", coordinate[i]);
  }
  return text;
}

std::string PlanNames::LeafCoordinate(int32_t coordinate) const {
  if (coordinate < 0) return "";
  if (coordinate >= kFirstReplica) {
    return Coordinate(classes_.coordinates[coordinate - kFirstReplica]);
  }
  const std::vector<MeshAxis>& axes = model_.plan->mesh.axes;
  std::vector<int64_t> at(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    at[i] = coordinate % axes[i].size;
    coordinate = static_cast<int32_t>(coordinate / axes[i].size);
  }
  return Coordinate(at);
}

std::string PlanNames::SiteName(PlanSite site) const {
  return StrCat("program '", model_.program(site.program).name, "'",
                Coordinate(classes_.coordinates[site.coordinate]));
}

std::string PlanNames::InstanceName(PlanSite site, const SectionIndex& index,
                                    int32_t instance) const {
  return InstanceName(site, index, instance, nullptr);
}

std::string PlanNames::InstanceName(PlanSite site, const SectionIndex& index, int32_t instance,
                                    const Instruction* inner) const {
  const Program& program = model_.program(site.program);
  const IssuedInstance& i = index.programs[site.program].instances[instance];
  const ScheduleItem& item = ItemOf(program, index.section, i);
  std::string text = StrCat("stream '", StreamName(site, index, instance), "' #", instance, " ");
  const Instruction& outer = InstructionOf(program, index.section, i);
  if (inner != nullptr && inner != &outer) {
    StrAppend(&text, DescribeInstruction(*model_.plan, program, *inner), " in a body of ");
  }
  StrAppend(&text, DescribeInstruction(*model_.plan, program, outer), " (segment '",
            program.segments[item.segment.index].name, "' microbatch ", item.microbatch, ")");
  return text;
}

std::string PlanNames::StreamName(PlanSite site, const SectionIndex& index,
                                  int32_t instance) const {
  const ProgramSection& section = index.programs[site.program];
  const StreamId stream = section.stream_ids[section.instances[instance].stream];
  return model_.program(site.program).streams[stream.index].name;
}

std::string PlanNames::BytesName(PlanSite site, BufferId buffer, int64_t begin, int64_t end) const {
  return StrCat("buffer '", model_.program(site.program).buffers[buffer.index].name, "' bytes [",
                begin, ",", end, ")");
}

std::string PlanNames::ValueName(int32_t global_value) const {
  return StrCat("'", model_.graphs.value(model_.graphs.RefOf(global_value)).name, "'");
}

std::string PlanNames::TermName(const Terms& terms, int32_t id) const {
  const ContentTerm& term = terms.term(id);
  switch (term.kind) {
    case TermKind::kNothing:
      return "nothing";
    case TermKind::kInput:
      return StrCat("input ", ValueName(term.subject), " of microbatch ", term.microbatch,
                    LeafCoordinate(term.coordinate));
    case TermKind::kConstant:
      return StrCat("constant ", ValueName(term.subject), LeafCoordinate(term.coordinate));
    case TermKind::kParam:
      return StrCat("param ", ValueName(term.subject), " of the start of the step",
                    LeafCoordinate(term.coordinate));
    case TermKind::kResult: {
      const Node& node = *model_.graphs.nodes[terms.application(term.subject).node].node;
      const int32_t graph = model_.graphs.nodes[terms.application(term.subject).node].graph;
      const ValueId value = node.outputs[term.output];
      const std::string name = value.valid() ? model_.graphs.value({graph, value}).name : node.name;
      return StrCat("'", name, "' of microbatch ", term.microbatch);
    }
    case TermKind::kEarlier:
      return StrCat(TermName(terms, term.subject), ", of an earlier step");
    case TermKind::kBranch:
      return "what depends on the branch taken";
    case TermKind::kTrips:
      return "what depends on the trips made";
    case TermKind::kTrip: {
      const bool is_stack =
          model_.graphs.value(model_.graphs.RefOf(term.subject)).kind == ValueKind::kResult;
      return is_stack ? StrCat("what earlier trips put into ", ValueName(term.subject))
                      : StrCat(ValueName(term.subject), " of the trip");
    }
  }
  return "";
}

}  // namespace millrace
