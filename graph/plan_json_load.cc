// Reads plan files (plan_json_save.cc says how they refer to things). Every id of the result names
// something: a reference that does not is an error with its place. Nothing is asked of sizes but
// that they are numbers; whether the plan is right is the checker's to say.
#include "graph/plan_json_load.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/graph_json.h"
#include "graph/plan_json.h"
#include "graph/strings.h"

namespace millrace {
namespace plan_json {

namespace {
constexpr int32_t kAmbiguous = -1;
constexpr size_t kMaxExprLength = 4096;
}  // namespace

void References::Add(std::string name) {
  const auto [entry, fresh] = index_.try_emplace(name, static_cast<int32_t>(names_.size()));
  if (!fresh) entry->second = kAmbiguous;
  names_.push_back(std::move(name));
}

int32_t References::Resolve(const JsonReader& reader, bool by_index) const {
  if (reader.IsString()) {
    const std::string_view name = reader.value().string();
    const auto found = index_.find(AbslView(name));
    if (found == index_.end()) {
      if (reader.IsCountedOnly()) return -1;
      reader.Error(StrCat("no ", what_, " is named '", name, "'"), "", "",
                   DidYouMean(name, names_));
      return -1;
    }
    if (found->second == kAmbiguous) {
      reader.Error(StrCat("more than one ", what_, " is named '", name, "'"), "an index",
                   reader.Describe());
    }
    return found->second;
  }
  if (!by_index) {
    reader.Error(StrCat("a ", what_, " is referred to by its name"), "a string", reader.Describe());
    return -1;
  }
  if (names_.empty()) {
    reader.Error(StrCat("there is no ", what_, " to refer to"));
    return -1;
  }
  return static_cast<int32_t>(reader.Int(0, static_cast<int64_t>(names_.size()) - 1).value_or(-1));
}

std::optional<JsonReader> Need(const JsonReader& object, const std::optional<JsonReader>& member,
                               std::string_view key) {
  if (!member) object.Error(StrCat("key \"", key, "\" is missing"));
  return member;
}

int64_t ReadInt(const std::optional<JsonReader>& reader, int64_t min, int64_t max) {
  return reader ? reader->Int(min, max).value_or(min) : min;
}

std::string ReadString(const std::optional<JsonReader>& reader, bool allow_empty) {
  return reader ? reader->String(1024, allow_empty).value_or("") : "";
}

LinearExpr ReadExpr(const std::optional<JsonReader>& reader, const Mesh& mesh) {
  if (!reader) return 0;
  if (!reader->IsString()) return reader->Int(kMinInt64, kMaxInt64).value_or(0);
  const std::optional<std::string> text = reader->String(kMaxExprLength);
  if (!text) return 0;
  absl::StatusOr<LinearExpr> expr = ParseLinearExpr(*text, mesh);
  if (expr.ok()) return *std::move(expr);
  reader->Error(StdView(expr.status().message()));
  return 0;
}

int32_t ReadGraphIndex(const std::optional<JsonReader>& reader, const Names& names,
                       int32_t otherwise) {
  if (!reader) return otherwise;
  return static_cast<int32_t>(ReadInt(reader, 0, static_cast<int64_t>(names.graphs.size()) - 1));
}

SliceId ReadSliceId(const std::optional<JsonReader>& reader, const Names& names) {
  if (!reader) return SliceId();
  if (names.num_slices == 0) {
    reader->Error("the program has no slices to refer to");
    return SliceId();
  }
  return SliceId(reader->Int(0, names.num_slices - 1).value_or(-1));
}

int ReadChoice(const std::optional<JsonReader>& reader, const std::vector<std::string>& choices) {
  if (!reader) return 0;
  const std::optional<std::string> text = reader->String();
  if (!text) return 0;
  const auto found = std::find(choices.begin(), choices.end(), *text);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  if (reader->IsCountedOnly()) return 0;
  reader->Error("unknown name", absl::StrJoin(choices, ", "), reader->Describe(),
                DidYouMean(*text, choices));
  return 0;
}

bool ReadPair(const JsonReader& reader, std::string_view expected,
              std::optional<JsonReader> (&pair)[2]) {
  if (!reader.IsArray() || reader.value().size != 2) {
    reader.Error("not a pair", expected, reader.Describe());
    return false;
  }
  int next = 0;
  reader.ForEachElement([&](JsonReader element) { pair[next++] = element; });
  return true;
}

namespace {

// The enumerators' names, in order.
template <typename Enum>
std::vector<std::string> EnumNames(Enum last, std::string_view (*name_of)(Enum)) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.emplace_back(name_of(Enum(i)));
  return names;
}

class PlanReader {
 public:
  PlanBundle Read(const JsonReader& root) {
    static constexpr std::string_view kKeys[] = {"format",       "version", "name",  "machine",
                                                 "microbatches", "mesh",    "graph", "programs"};
    std::optional<JsonReader> m[std::size(kKeys)];
    if (!root.HasFormat("millrace-plan") || !root.Members(kKeys, m)) return {};
    plan_.name = ReadString(Need(root, m[2], "name"));
    plan_.machine = ReadString(Need(root, m[3], "machine"));
    plan_.microbatches =
        static_cast<int32_t>(ReadInt(Need(root, m[4], "microbatches"), 1, kMaxInt32));
    ReadMesh(m[5]);
    const bool graph_read = ReadEmbeddedGraph(Need(root, m[6], "graph"));
    const std::optional<JsonReader> programs = Need(root, m[7], "programs");
    // Without the graph, each name of a node or value would be an error of its own.
    if (graph_read) ReadPrograms(programs);
    return std::move(plan_);
  }

 private:
  void ReadMesh(const std::optional<JsonReader>& reader) {
    if (!reader) return;
    absl::StatusOr<Mesh> mesh = ParseMesh(ReadString(reader));
    if (mesh.ok()) {
      names_.mesh = plan_.mesh = *std::move(mesh);
    } else {
      reader->Error(StdView(mesh.status().message()));
    }
  }

  bool ReadEmbeddedGraph(const std::optional<JsonReader>& reader) {
    std::optional<Graph> graph = reader ? ReadGraph(*reader) : std::nullopt;
    if (!graph) return false;
    plan_.graph = *std::move(graph);
    for (const Graph* g : FlattenGraphs(plan_.graph)) {
      GraphNames& names = names_.graphs.emplace_back();
      for (const Node& n : g->nodes) names.nodes.Add(n.name);
      for (const Value& v : g->values) names.values.Add(v.name);
    }
    return true;
  }

  void ReadPrograms(const std::optional<JsonReader>& list) {
    if (list && !list->IsArray()) {
      list->Error("wrong kind of value", "an array", list->Describe());
      return;
    }
    // A Send may name a program that comes later.
    ForEach(list, [&](const JsonReader& program) {
      names_.programs.Add(ReadString(program.Required("name")));
    });
    ForEach(list, [&](const JsonReader& program) { ReadProgram(program); });
  }

  void ReadProgram(const JsonReader& reader) {
    static constexpr std::string_view kKeys[] = {
        "name",     "device_kind", "device_index", "buffers", "slices", "streams", "events",
        "segments", "init",        "step",         "finish",  "loads",  "inputs",  "outputs"};
    std::optional<JsonReader> m[std::size(kKeys)];
    if (!reader.Members(kKeys, m)) return;
    Program& p = plan_.programs.emplace_back();
    p.name = ReadString(m[0]);
    p.device_kind = ReadString(Need(reader, m[1], "device_kind"), /*allow_empty=*/false);
    p.device_index = ReadExpr(Need(reader, m[2], "device_index"), plan_.mesh);

    ReadBuffers(m[3], p);
    ForEach(m[4], [&](const JsonReader& r) { p.slices.push_back(ReadSlice(r)); });
    names_.num_slices = static_cast<int64_t>(p.slices.size());
    ReadStreams(m[5], p);
    names_.events = References("event");
    ForEach(m[6], [&](const JsonReader& r) {
      p.events.push_back(ReadString(r));
      names_.events.Add(p.events.back());
    });
    ReadSegments(m[7], p);
    p.init = ReadSchedule(m[8]);
    p.step = ReadSchedule(m[9]);
    p.finish = ReadSchedule(m[10]);
    p.loads = ReadBindings(m[11]);
    p.inputs = ReadBindings(m[12]);
    p.outputs = ReadBindings(m[13]);
  }

  void ReadBuffers(const std::optional<JsonReader>& list, Program& p) {
    static const std::vector<std::string> kSpaces = EnumNames(MemorySpace::kFile, MemorySpaceName);
    names_.buffers = References("buffer");
    ForEach(list, [&](const JsonReader& reader) {
      static constexpr std::string_view kKeys[] = {"name", "space", "size"};
      PlanBuffer& buffer = p.buffers.emplace_back();
      std::optional<JsonReader> m[std::size(kKeys)];
      if (reader.Members(kKeys, m)) {
        buffer.name = ReadString(Need(reader, m[0], "name"));
        buffer.space = MemorySpace(ReadChoice(Need(reader, m[1], "space"), kSpaces));
        buffer.size_bytes = ReadInt(Need(reader, m[2], "size"), kMinInt64, kMaxInt64);
      }
      names_.buffers.Add(buffer.name);
    });
  }

  Slice ReadSlice(const JsonReader& reader) {
    static const std::vector<std::string> kLayouts = EnumNames(Layout::kPacked, LayoutName);
    static constexpr std::string_view kKeys[] = {"value", "graph",  "buffer", "offset",
                                                 "size",  "layout", "strides"};
    Slice slice;
    std::optional<JsonReader> m[std::size(kKeys)];
    if (!reader.Members(kKeys, m)) return slice;
    if (m[0]) {
      slice.value.graph = ReadGraphIndex(m[1], names_, 0);
      slice.value.value =
          ValueId(names_.graphs[slice.value.graph].values.Resolve(*m[0], /*by_index=*/false));
    } else if (m[1]) {
      m[1]->Error("scratch memory belongs to no graph");
    }
    slice.buffer = BufferId(names_.buffers.Resolve(Need(reader, m[2], "buffer")));
    slice.offset_bytes = ReadExpr(Need(reader, m[3], "offset"), plan_.mesh);
    slice.size_bytes = ReadInt(Need(reader, m[4], "size"), kMinInt64, kMaxInt64);
    if (m[5]) slice.layout = Layout(ReadChoice(m[5], kLayouts));
    ForEach(m[6], [&](const JsonReader& r) {
      slice.strides.push_back(ReadInt(r, kMinInt64, kMaxInt64));
    });
    return slice;
  }

  void ReadStreams(const std::optional<JsonReader>& list, Program& p) {
    static const std::vector<std::string> kKinds = EnumNames(StreamKind::kComm, StreamKindName);
    names_.streams = References("stream");
    ForEach(list, [&](const JsonReader& reader) {
      static constexpr std::string_view kKeys[] = {"name", "kind", "threads", "priority"};
      PlanStream& stream = p.streams.emplace_back();
      std::optional<JsonReader> m[std::size(kKeys)];
      if (reader.Members(kKeys, m)) {
        stream.name = ReadString(Need(reader, m[0], "name"));
        stream.kind = StreamKind(ReadChoice(Need(reader, m[1], "kind"), kKinds));
        stream.threads = static_cast<int>(ReadInt(Need(reader, m[2], "threads"), 0, kMaxInt32));
        if (m[3]) stream.priority = static_cast<int>(ReadInt(m[3], -kMaxInt32, kMaxInt32));
      }
      names_.streams.Add(stream.name);
    });
  }

  void ReadSegments(const std::optional<JsonReader>& list, Program& p) {
    // A Call may come before its bodies.
    names_.segments = References("segment");
    ForEach(list, [&](const JsonReader& reader) {
      p.segments.emplace_back().name = ReadString(reader.Required("name"));
      names_.segments.Add(p.segments.back().name);
    });
    size_t next = 0;
    ForEach(list, [&](const JsonReader& reader) {
      static constexpr std::string_view kKeys[] = {"name", "graph", "instructions"};
      Segment& segment = p.segments[next++];
      std::optional<JsonReader> m[std::size(kKeys)];
      if (!reader.Members(kKeys, m)) return;
      segment.graph = ReadGraphIndex(m[1], names_, 0);
      const std::optional<JsonReader> instructions = Need(reader, m[2], "instructions");
      if (instructions && instructions->IsArray()) {
        segment.instructions.reserve(instructions->value().size);
      }
      ForEach(instructions, [&](const JsonReader& r) {
        segment.instructions.push_back(ReadInstruction(r, segment.graph, names_));
      });
    });
  }

  std::vector<ScheduleItem> ReadSchedule(const std::optional<JsonReader>& list) {
    std::vector<ScheduleItem> items;
    ForEach(list, [&](const JsonReader& reader) {
      std::optional<JsonReader> pair[2];
      if (!ReadPair(reader, "[segment, microbatch]", pair)) return;
      items.push_back({SegmentId(names_.segments.Resolve(pair[0])),
                       static_cast<int32_t>(ReadInt(pair[1], 0, plan_.microbatches - 1))});
    });
    return items;
  }

  std::vector<Binding> ReadBindings(const std::optional<JsonReader>& list) {
    std::vector<Binding> bindings;
    ForEach(list, [&](const JsonReader& reader) {
      static constexpr std::string_view kKeys[] = {"value", "slice"};
      std::optional<JsonReader> m[std::size(kKeys)];
      if (!reader.Members(kKeys, m)) return;
      const References& values = names_.graphs[0].values;
      bindings.push_back({ValueId(values.Resolve(Need(reader, m[0], "value"), /*by_index=*/false)),
                          ReadSliceId(Need(reader, m[1], "slice"), names_)});
    });
    return bindings;
  }

  PlanBundle plan_;
  Names names_;
};

}  // namespace
}  // namespace plan_json

absl::StatusOr<PlanBundle> ParsePlanJson(const JsonDocument& document) {
  Diagnostics diagnostics;
  PlanBundle plan = plan_json::PlanReader().Read(JsonReader(document, diagnostics));
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return plan;
}

absl::StatusOr<PlanBundle> ParsePlanJson(std::string json, std::string file) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::move(json), std::move(file)));
  return ParsePlanJson(document);
}

absl::StatusOr<PlanBundle> LoadPlan(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  return ParsePlanJson(document);
}

}  // namespace millrace
