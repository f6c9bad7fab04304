#include "tools/plan_summary.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "tools/output.h"
#include "tools/plan_devices.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr int64_t kShownDevices = 4;

// Slots of one slice: a value has one per microbatch when its place depends on the microbatch.
int64_t Slots(const PlanBundle& plan, const Slice& slice) {
  for (const LinearTerm& term : slice.offset_bytes.terms) {
    if (term.variable != kMicrobatchVar) continue;
    return term.modulus > 0 ? std::min<int64_t>(term.modulus, plan.microbatches)
                            : plan.microbatches;
  }
  return 1;
}

std::vector<BufferSummary> SummarizeBuffers(const PlanBundle& plan, const Program& program) {
  std::vector<BufferSummary> buffers;
  for (const PlanBuffer& buffer : program.buffers) {
    buffers.push_back({.name = buffer.name,
                       .space = std::string(MemorySpaceName(buffer.space)),
                       .size_bytes = buffer.size_bytes});
  }
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  const auto& outputs = plan.graph.outputs;
  for (const Slice& slice : program.slices) {
    BufferSummary& buffer = buffers[slice.buffer.index];
    const int64_t bytes = slice.size_bytes * Slots(plan, slice);
    if (!slice.value.value.valid()) {
      buffer.scratch_bytes += bytes;
      continue;
    }
    const Value& value = graphs[slice.value.graph]->value(slice.value.value);
    const bool top = slice.value.graph == 0;
    const bool output =
        top && std::find(outputs.begin(), outputs.end(), slice.value.value) != outputs.end();
    if (value.kind == ValueKind::kParam || value.kind == ValueKind::kConstant) {
      buffer.param_bytes += bytes;
    } else if (output || (top && value.kind == ValueKind::kInput)) {
      buffer.input_bytes += bytes;
    } else {
      buffer.result_bytes += bytes;
    }
  }
  return buffers;
}

void SummarizeInstructions(const Program& program, ProgramSummary& summary) {
  for (const ScheduleItem& item : program.step) {
    for (const Instruction& instruction : program.segments[item.segment.index].instructions) {
      ++summary.kinds[std::string(InstructionKindName(instruction.body))];
      ++summary.streams[instruction.stream.index].instructions;
      if (const auto* launch = std::get_if<Launch>(&instruction.body)) {
        ++summary.variants[launch->variant];
      }
    }
  }
  for (Section section : {Section::kInit, Section::kStep, Section::kFinish}) {
    summary.instructions[std::string(SectionName(section))] = CountInstructions(program, section);
  }
}

std::string BytesOrDash(int64_t bytes) {
  return bytes == 0 ? "-" : FormatBytes(static_cast<double>(bytes));
}

// "11 launches, 2 copies" in the order of the map.
std::string Counts(const std::map<std::string, int64_t>& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    StrAppend(out, FormatCount(entry.second), " ", entry.first);
  });
}

std::string DeviceList(const ProgramSummary& program) {
  const int64_t hidden = program.num_devices - static_cast<int64_t>(program.first_devices.size());
  return StrCat(absl::StrJoin(program.first_devices, ", "),
                hidden > 0 ? StrCat(" and ", FormatCount(hidden), " more") : "");
}

std::string ToText(const ProgramSummary& program) {
  std::string text =
      StrCat("program ", program.name, " on ", DeviceList(program), ": ",
             FormatBytes(static_cast<double>(program.device_bytes)), " of device memory\n\n");
  Table buffers({"buffer", "space", ">size", ">params", ">in/out", ">results", ">scratch"});
  for (const BufferSummary& b : program.buffers) {
    if (b.size_bytes == 0) continue;
    buffers.Row({b.name, b.space, FormatBytes(static_cast<double>(b.size_bytes)),
                 BytesOrDash(b.param_bytes), BytesOrDash(b.input_bytes),
                 BytesOrDash(b.result_bytes), BytesOrDash(b.scratch_bytes)});
  }
  StrAppend(&text, buffers.ToString("  "), "\n");
  Table streams({"stream", "kind", ">threads", ">instructions"});
  for (const StreamSummary& s : program.streams) {
    streams.Row({s.name, s.kind, StrCat(s.threads), FormatCount(s.instructions)});
  }
  StrAppend(&text, streams.ToString("  "), "\n");
  Table facts({"", ""});
  facts.Row({"step", Counts(program.kinds)});
  if (!program.variants.empty()) facts.Row({"kernels", Counts(program.variants)});
  for (const char* section : {"init", "finish"}) {
    const int64_t count = program.instructions.at(section);
    if (count > 0) facts.Row({section, FormatPlural(count, "instruction")});
  }
  if (program.events > 0) facts.Row({"events", FormatCount(program.events)});
  return text + facts.ToString("  ");
}

Json ToJson(const ProgramSummary& program) {
  Json buffers = Json::array(), streams = Json::array();
  for (const BufferSummary& b : program.buffers) {
    buffers.push_back({{"name", b.name},
                       {"space", b.space},
                       {"size_bytes", b.size_bytes},
                       {"param_bytes", b.param_bytes},
                       {"input_bytes", b.input_bytes},
                       {"result_bytes", b.result_bytes},
                       {"scratch_bytes", b.scratch_bytes}});
  }
  for (const StreamSummary& s : program.streams) {
    streams.push_back({{"name", s.name},
                       {"kind", s.kind},
                       {"threads", s.threads},
                       {"instructions", s.instructions}});
  }
  return {{"name", program.name},
          {"num_devices", program.num_devices},
          {"first_devices", program.first_devices},
          {"device_bytes", program.device_bytes},
          {"buffers", std::move(buffers)},
          {"streams", std::move(streams)},
          {"events", program.events},
          {"instructions", program.instructions},
          {"step_kinds", program.kinds},
          {"step_kernels", program.variants}};
}

}  // namespace

std::vector<ProgramSummary> SummarizePlan(const PlanBundle& plan) {
  std::vector<ProgramSummary> programs;
  for (const Program& program : plan.programs) {
    ProgramSummary summary;
    summary.name = program.name;
    summary.num_devices = plan.mesh.num_devices();
    summary.first_devices = DeviceNamesOf(plan, program, kShownDevices);
    summary.device_bytes = DeviceBytes(program);
    summary.buffers = SummarizeBuffers(plan, program);
    for (const PlanStream& stream : program.streams) {
      summary.streams.push_back({.name = stream.name,
                                 .kind = std::string(StreamKindName(stream.kind)),
                                 .threads = stream.threads});
    }
    summary.events = static_cast<int64_t>(program.events.size());
    SummarizeInstructions(program, summary);
    programs.push_back(std::move(summary));
  }
  return programs;
}

std::string ToText(const std::vector<ProgramSummary>& summary, const PlanBundle& plan) {
  std::string text = StrCat("plan ", plan.name, " for ", plan.machine);
  if (plan.microbatches > 1) StrAppend(&text, ", ", plan.microbatches, " microbatches a step");
  if (!plan.mesh.axes.empty()) StrAppend(&text, ", mesh ", ToString(plan.mesh));
  StrAppend(&text, ", ", ContentHash(plan).substr(0, 12), "\n");
  for (const ProgramSummary& program : summary) StrAppend(&text, "\n", ToText(program));
  return text;
}

Json ToJson(const std::vector<ProgramSummary>& summary, const PlanBundle& plan) {
  Json document = JsonHeader("millrace-plan-summary");
  document["name"] = plan.name;
  document["machine"] = plan.machine;
  document["hash"] = ContentHash(plan);
  document["microbatches"] = plan.microbatches;
  document["mesh"] = ToString(plan.mesh);
  Json programs = Json::array();
  for (const ProgramSummary& program : summary) programs.push_back(ToJson(program));
  document["programs"] = std::move(programs);
  return document;
}

}  // namespace millrace
