#include "tools/plan_summary.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "passes/memory/live_bytes.h"
#include "tools/output.h"
#include "tools/plan_devices.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr int64_t kShownDevices = 4;
constexpr size_t kShownValues = 6;  // at a buffer's peak

// Slots of one slice: a value has one per microbatch when its place depends on the microbatch.
int64_t Slots(const PlanBundle& plan, const Slice& slice) {
  for (const LinearTerm& term : slice.offset_bytes.terms) {
    if (term.variable != kMicrobatchVar) continue;
    return term.modulus > 0 ? std::min<int64_t>(term.modulus, plan.microbatches)
                            : plan.microbatches;
  }
  return 1;
}

// "launch 'conv1'": the instruction and its node.
std::string NameOf(const Instruction* instruction, const std::vector<const Graph*>& graphs) {
  if (instruction == nullptr) return "the session";
  const auto named = [&](std::string_view kind, int32_t graph, NodeId node) {
    return StrCat(kind, " '", graphs[graph]->node(node).name, "'");
  };
  const InstructionBody& body = instruction->body;
  if (const auto* launch = std::get_if<Launch>(&body)) {
    return named("launch", launch->graph, launch->node);
  }
  if (const auto* call = std::get_if<Call>(&body)) return named("call", call->graph, call->node);
  if (const auto* call = std::get_if<HostCall>(&body)) {
    return named("host call", call->graph, call->node);
  }
  return std::string(InstructionKindName(body));
}

void AddToBuffer(const Value& value, bool top, bool output, int64_t bytes, BufferSummary& buffer) {
  if (value.kind == ValueKind::kParam || value.kind == ValueKind::kConstant) {
    buffer.param_bytes += bytes;
  } else if (output || (top && value.kind == ValueKind::kInput)) {
    buffer.input_bytes += bytes;
  } else {
    buffer.result_bytes += bytes;
  }
}

std::vector<BufferSummary> SummarizeBuffers(const PlanBundle& plan, const Program& program) {
  std::vector<BufferSummary> buffers;
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  const std::vector<LiveBytes> live = MeasureLiveBytes(plan, program);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const PlanBuffer& buffer = program.buffers[b];
    BufferSummary& summary = buffers.emplace_back();
    summary.name = buffer.name;
    summary.space = MemorySpaceName(buffer.space);
    summary.size_bytes = buffer.size_bytes;
    summary.live_bytes = live[b].most_bytes;
    summary.peak = NameOf(live[b].peak, graphs);
    for (const auto& [value, bytes] : live[b].at_peak) {
      const bool scratch = !value.value.valid();
      summary.at_peak.push_back(
          {scratch ? "scratch" : graphs[value.graph]->value(value.value).name, bytes});
    }
  }
  std::vector<bool> is_output(plan.graph.values.size(), false);
  for (ValueId id : plan.graph.outputs) is_output[id.index] = true;
  for (const Slice& slice : program.slices) {
    BufferSummary& buffer = buffers[slice.buffer.index];
    const int64_t bytes = slice.size_bytes * Slots(plan, slice);
    if (!slice.value.value.valid()) {
      buffer.scratch_bytes += bytes;
      continue;
    }
    const bool top = slice.value.graph == 0;
    AddToBuffer(graphs[slice.value.graph]->value(slice.value.value), top,
                top && is_output[slice.value.value.index], bytes, buffer);
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

// "w 64 KiB, h 4 KiB and 3 more with 2 KiB"
std::string ValueList(const std::vector<ValueBytes>& values) {
  std::vector<std::string> shown;
  int64_t hidden = 0, hidden_bytes = 0;
  for (const ValueBytes& value : values) {
    if (shown.size() < kShownValues) {
      shown.push_back(StrCat(value.name, " ", FormatBytes(static_cast<double>(value.bytes))));
    } else {
      ++hidden;
      hidden_bytes += value.bytes;
    }
  }
  return StrCat(absl::StrJoin(shown, ", "),
                hidden > 0 ? StrCat(" and ", FormatCount(hidden), " more with ",
                                    FormatBytes(static_cast<double>(hidden_bytes)))
                           : "");
}

double Gap(const BufferSummary& b) {
  if (b.live_bytes == 0) return 0;
  return static_cast<double>(b.size_bytes) / static_cast<double>(b.live_bytes) - 1;
}

std::string ToText(const ProgramSummary& program) {
  std::string text =
      StrCat("program ", program.name, " on ", DeviceList(program), ": ",
             FormatBytes(static_cast<double>(program.device_bytes)), " of device memory\n\n");
  Table buffers({"buffer", "space", ">planned", ">least", ">gap", ">params", ">in/out", ">results",
                 ">scratch"});
  for (const BufferSummary& b : program.buffers) {
    if (b.size_bytes == 0) continue;
    buffers.Row({b.name, b.space, FormatBytes(static_cast<double>(b.size_bytes)),
                 FormatBytes(static_cast<double>(b.live_bytes)), FormatPercent(Gap(b)),
                 BytesOrDash(b.param_bytes), BytesOrDash(b.input_bytes),
                 BytesOrDash(b.result_bytes), BytesOrDash(b.scratch_bytes)});
  }
  StrAppend(&text, buffers.ToString("  "), "\n");
  for (const BufferSummary& b : program.buffers) {
    if (b.size_bytes == 0) continue;
    StrAppend(&text, "  ", b.name, " is fullest at ", b.peak, ": ", ValueList(b.at_peak), "\n");
  }
  StrAppend(&text, "\n");
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
    Json at_peak = Json::array();
    for (const ValueBytes& value : b.at_peak) {
      at_peak.push_back({{"name", value.name}, {"bytes", value.bytes}});
    }
    buffers.push_back({{"name", b.name},
                       {"space", b.space},
                       {"size_bytes", b.size_bytes},
                       {"live_bytes", b.live_bytes},
                       {"gap", Gap(b)},
                       {"peak", b.peak},
                       {"at_peak", std::move(at_peak)},
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
