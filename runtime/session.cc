#include "runtime/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "runtime/executor.h"
#include "runtime/session_processes.h"
#include "runtime/session_transfer.h"
#include "runtime/value_part.h"

namespace millrace {
namespace {

// A slice that holds a bound value, of one program at one coordinate.
struct Home {
  int program = 0;  // of Executor::programs()
  SliceId slice;
  ValuePart part;  // of the whole that it holds
};

struct BoundInput {
  ValueId value;
  TensorType type;  // of the whole of one microbatch
  std::vector<Home> homes;
  Tensor tensor = {};  // empty: never set
};

// By value, all homes in this process, in program order. What only other processes hold is there
// too, without a home.
using Homes = std::map<ValueId, std::vector<Home>>;

Homes HomesOf(const PlanBundle& plan, const Executor& executor,
              std::vector<Binding> Program::*bindings) {
  Homes homes;
  for (const Program& program : plan.programs) {
    for (const Binding& binding : program.*bindings) homes[binding.value];
  }
  for (int i = 0; i < static_cast<int>(executor.programs().size()); ++i) {
    const BoundProgram& bound = executor.programs()[i];
    for (const Binding& binding : bound.program->*bindings) {
      homes[binding.value].push_back(
          {i, binding.slice, PartOf(plan.graph, binding.value, bound.endpoint.coordinates)});
    }
  }
  return homes;
}

std::string NamesOf(const Graph& graph, const Homes& homes) {
  return absl::StrJoin(homes, ", ", [&](std::string* out, const auto& entry) {
    StrAppend(out, "'", graph.value(entry.first).name, "'");
  });
}

// The homes of the value called `name`, or a UsageError that lists what there is.
absl::StatusOr<Homes::const_iterator> FindHomes(const Graph& graph, const Homes& homes,
                                                std::string_view what, std::string_view name) {
  std::vector<std::string> names;
  for (auto it = homes.begin(); it != homes.end(); ++it) {
    if (graph.value(it->first).name == name) return it;
    names.push_back(graph.value(it->first).name);
  }
  const std::string hint = DidYouMean(name, names);
  return UsageError(StrCat("no ", what, " '", name, "'; there are ",
                           names.empty() ? "none" : NamesOf(graph, homes), hint.empty() ? "" : "; ",
                           hint));
}

// A value whose parts do not make the whole when they are laid side by side has no tensor here.
absl::Status RequireParts(const Graph& graph, const Mesh& mesh, const Homes& homes) {
  for (const auto& [value, unused] : homes) {
    const auto sharding = graph.shardings.find(value);
    if (sharding == graph.shardings.end()) continue;
    if (graph.local_types && graph.mesh == mesh &&
        std::ranges::none_of(sharding->second.axes, [](const AxisSharding& along) {
          return along.kind == AxisSharding::Kind::kPartial;
        })) {
      continue;
    }
    for (size_t axis = 0; axis < sharding->second.axes.size(); ++axis) {
      if (sharding->second.axes[axis].kind == AxisSharding::Kind::kReplicate) continue;
      return UsageError(StrCat("value '", graph.value(value).name, "' is spread over mesh axis '",
                               mesh.axes[axis].name,
                               "', and the graph does not have local types: a session takes and "
                               "gives whole values, and could not tell its parts"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

struct Session::State {
  explicit State(CheckedPlan p) : plan(std::move(p)) {}

  const Graph& graph() const { return plan.plan().graph; }
  int32_t microbatches() const { return plan.plan().microbatches; }

  absl::Status CollectBindings();
  absl::Status Load(const std::map<std::string, Tensor>& given);
  absl::Status FillInputs();
  absl::Status RunSection(Section section);
  absl::StatusOr<Tensor> Read(ValueId value, const std::vector<Home>& homes, int32_t slots) const;
  absl::StatusOr<Tensor> ReadAnywhere(ValueId value, const std::vector<Home>& homes,
                                      std::vector<Binding> Program::*bindings, int32_t slots) const;
  absl::StatusOr<Tensor> GatherParts(ValueId value, const std::vector<Home>& homes,
                                     int32_t slots) const;

  CheckedPlan plan;
  Communicator* communicator = nullptr;
  std::unique_ptr<Executor> executor;
  std::map<std::string, BoundInput, std::less<>> inputs;
  Homes input_homes, outputs, loads, params;
  bool ran = false;
  absl::Status failure;  // of an earlier run
};

absl::Status Session::State::CollectBindings() {
  input_homes = HomesOf(plan.plan(), *executor, &Program::inputs);
  outputs = HomesOf(plan.plan(), *executor, &Program::outputs);
  loads = HomesOf(plan.plan(), *executor, &Program::loads);
  for (const Homes* homes : {&input_homes, &outputs, &loads}) {
    MILLRACE_RETURN_IF_ERROR(RequireParts(graph(), plan.plan().mesh, *homes));
  }
  for (const auto& [value, homes] : input_homes) {
    inputs[graph().value(value).name] = {
        .value = value, .type = GlobalType(graph(), value), .homes = homes};
  }
  for (const auto& [value, homes] : loads) {
    if (graph().value(value).kind == ValueKind::kParam) params[value] = homes;
  }
  return absl::OkStatus();
}

absl::Status Session::State::Load(const std::map<std::string, Tensor>& given) {
  for (const auto& [name, tensor] : given) {
    MILLRACE_ASSIGN_OR_RETURN(const auto param, FindHomes(graph(), params, "param", name));
    const TensorType type = GlobalType(graph(), param->first);
    if (tensor.has_data() && tensor.type() == type) continue;
    return UsageError(StrCat("param '", name, "' has type ", ToString(type), ", given is ",
                             tensor.has_data() ? ToString(tensor.type()) : "no data"));
  }
  WeightStore weights(graph());
  for (const auto& [value, homes] : loads) {
    if (homes.empty()) continue;
    const std::string& name = graph().value(value).name;
    const auto found = given.find(name);
    Tensor tensor;
    if (found != given.end()) {
      tensor = found->second;
    } else {
      MILLRACE_ASSIGN_OR_RETURN(tensor, weights.Get(value));
    }
    for (const Home& home : homes) {
      MILLRACE_RETURN_IF_ERROR(Annotate(
          WriteSlice(executor->programs()[home.program], home.slice, 0, graph().value(value).type,
                     tensor.bytes() + home.part.offset_bytes, home.part.strides),
          StrCat("loading '", name, "'")));
    }
  }
  return absl::OkStatus();
}

// Before every step, since a plan may reuse an input's bytes once it has read them.
absl::Status Session::State::FillInputs() {
  for (const auto& [name, input] : inputs) {
    if (!input.tensor.has_data()) {
      return UsageError(StrCat("input '", name, "' was never set; the inputs are ",
                               NamesOf(graph(), input_homes)));
    }
    const bool shared = input.type.shape.rank() == 0;
    const int64_t step = shared ? 0 : ByteSize(input.type);
    for (const Home& home : input.homes) {
      for (int32_t microbatch = 0; microbatch < microbatches(); ++microbatch) {
        MILLRACE_RETURN_IF_ERROR(WriteSlice(
            executor->programs()[home.program], home.slice, microbatch,
            graph().value(input.value).type,
            input.tensor.bytes() + microbatch * step + home.part.offset_bytes, home.part.strides));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Session::State::RunSection(Section section) {
  if (!failure.ok()) {
    return Annotate(failure, "the session cannot be used any more, since an earlier run failed");
  }
  if (section == Section::kStep) MILLRACE_RETURN_IF_ERROR(FillInputs());
  failure = executor->Run(section);
  return failure;
}

// `slots` microbatches of a value, stacked along dim 0, each put together from its parts.
absl::StatusOr<Tensor> Session::State::Read(ValueId id, const std::vector<Home>& homes,
                                            int32_t slots) const {
  const Value& value = graph().value(id);
  const Home& home = homes.front();
  const TensorType whole = GlobalType(graph(), id);
  std::vector<TensorType> types(slots, whole);
  TensorType stacked = whole;
  if (value.bounded) {
    for (int32_t i = 0; i < slots; ++i) {
      types[i].shape = executor->TrueShape(home.program, {0, id}, i);
    }
    stacked = types[0];
  }
  if (slots > 1 && stacked.shape.rank() == 0) stacked.shape.push_back(1);
  for (int32_t i = 1; i < slots; ++i) {
    if (types[i].shape.rank() == 0) {
      ++stacked.shape[0];
      continue;
    }
    if (!std::ranges::equal(types[i].shape.dims().subspan(1), stacked.shape.dims().subspan(1))) {
      return UsageError(StrCat("output '", value.name, "' has shape ", ToString(types[i].shape),
                               " for microbatch ", i, " and ", ToString(types[0].shape),
                               " for microbatch 0; they cannot be stacked"));
    }
    stacked.shape[0] += types[i].shape[0];
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(stacked));
  std::byte* to = tensor.mutable_bytes();
  for (int32_t i = 0; i < slots; ++i) {
    std::set<int64_t> seen;  // parts that several devices hold are read from the first
    for (const Home& each : homes) {
      if (!seen.insert(each.part.offset_bytes).second) continue;
      MILLRACE_RETURN_IF_ERROR(ReadSlice(executor->programs()[each.program], each.slice, i,
                                         value.bounded ? types[i] : value.type,
                                         to + each.part.offset_bytes, each.part.strides));
    }
    to += ByteSize(types[i]);
  }
  return tensor;
}

// Processes that lack some of it are told by those that have it; they all find out alike whether
// there are such processes.
absl::StatusOr<Tensor> Session::State::ReadAnywhere(ValueId value, const std::vector<Home>& homes,
                                                    std::vector<Binding> Program::*bindings,
                                                    int32_t slots) const {
  const int processes = communicator == nullptr ? 1 : communicator->num_processes();
  if (processes == 1) return Read(value, homes, slots);
  if (GlobalType(graph(), value) != graph().value(value).type) {
    return GatherParts(value, homes, slots);
  }
  const std::vector<int> holders = HoldersOf(plan.plan(), value, bindings, *communicator);
  if (static_cast<int>(std::set<int>(holders.begin(), holders.end()).size()) == processes) {
    return Read(value, homes, slots);
  }
  std::string bytes;
  if (holders.front() == communicator->process()) {
    MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, Read(value, homes, slots));
    bytes = EncodeTensor(tensor);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            communicator->Gather(std::move(bytes)));
  return DecodeTensor(all[holders.front()]);
}

// Each process sends the parts that it has, and puts together what comes from all.
absl::StatusOr<Tensor> Session::State::GatherParts(ValueId id, const std::vector<Home>& homes,
                                                   int32_t slots) const {
  const TensorType& type = graph().value(id).type;
  const TensorType whole = GlobalType(graph(), id);
  MILLRACE_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(type));
  WireWriter writer;
  for (const Home& home : homes) {
    for (int32_t slot = 0; slot < slots; ++slot) {
      MILLRACE_RETURN_IF_ERROR(ReadSlice(executor->programs()[home.program], home.slice, slot, type,
                                         part.mutable_bytes()));
      PutPart(slot * ByteSize(whole) + home.part.offset_bytes, part, writer);
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            communicator->Gather(std::move(writer).Take()));
  MILLRACE_ASSIGN_OR_RETURN(const TensorType stacked, StackedType(whole, slots));
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(stacked));
  const std::vector<int64_t> origin(graph().mesh.axes.size(), 0);
  for (const std::string& parts : all) {
    MILLRACE_RETURN_IF_ERROR(TakeParts(parts, type, PartOf(graph(), id, origin).strides, tensor));
  }
  return tensor;
}

Session::Session() = default;
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(CheckedPlan plan,
                                                         const DeviceTable& devices,
                                                         const SessionOptions& options) {
  auto session = std::unique_ptr<Session>(new Session());
  session->state_ = std::make_unique<State>(std::move(plan));
  State& state = *session->state_;
  state.communicator = options.communicator;
  MILLRACE_ASSIGN_OR_RETURN(state.executor, Executor::Prepare(state.plan.plan(), devices,
                                                              {.communicator = options.communicator,
                                                               .tracer = options.tracer}));
  MILLRACE_RETURN_IF_ERROR(state.CollectBindings());
  if (options.poison) {
    for (const BoundProgram& bound : state.executor->programs()) {
      MILLRACE_RETURN_IF_ERROR(Poison(bound));
    }
  }
  MILLRACE_RETURN_IF_ERROR(state.Load(options.params));
  MILLRACE_RETURN_IF_ERROR(state.RunSection(Section::kInit));
  if (options.tracer != nullptr) options.tracer->Clear();  // steps only
  return session;
}

const PlanBundle& Session::plan() const { return state_->plan.plan(); }

absl::Status Session::SetInput(std::string_view name, const Tensor& tensor) {
  MILLRACE_ASSIGN_OR_RETURN(const auto found,
                            FindHomes(state_->graph(), state_->input_homes, "input", name));
  BoundInput& input = state_->inputs.find(name)->second;
  MILLRACE_ASSIGN_OR_RETURN(
      const TensorType wanted,
      StackedType(GlobalType(state_->graph(), found->first), state_->microbatches()));
  if (!tensor.has_data() || tensor.type() != wanted) {
    return UsageError(StrCat("input '", name, "' has type ", ToString(wanted), ", given is ",
                             tensor.has_data() ? ToString(tensor.type()) : "no data"));
  }
  input.tensor = tensor;
  return absl::OkStatus();
}

absl::Status Session::Reload(const std::map<std::string, Tensor>& params) {
  MILLRACE_RETURN_IF_ERROR(state_->failure);
  MILLRACE_RETURN_IF_ERROR(state_->Load(params));
  return state_->RunSection(Section::kInit);
}

absl::Status Session::Run() {
  MILLRACE_RETURN_IF_ERROR(state_->RunSection(Section::kStep));
  state_->ran = true;
  return absl::OkStatus();
}

absl::Status Session::Finish() { return state_->RunSection(Section::kFinish); }

absl::StatusOr<Tensor> Session::Output(std::string_view name) {
  MILLRACE_RETURN_IF_ERROR(state_->failure);
  MILLRACE_ASSIGN_OR_RETURN(const auto found,
                            FindHomes(state_->graph(), state_->outputs, "output", name));
  if (!state_->ran) return UsageError(StrCat("output '", name, "' before the first Run"));
  return state_->ReadAnywhere(found->first, found->second, &Program::outputs,
                              state_->microbatches());
}

absl::StatusOr<Tensor> Session::Param(std::string_view name) {
  MILLRACE_RETURN_IF_ERROR(state_->failure);
  MILLRACE_ASSIGN_OR_RETURN(const auto found,
                            FindHomes(state_->graph(), state_->params, "param", name));
  return state_->ReadAnywhere(found->first, found->second, &Program::loads, 1);
}

std::map<std::string, int64_t> Session::DeviceBytes() const {
  std::map<std::string, int64_t> bytes;
  for (const BoundProgram& bound : state_->executor->programs()) {
    bytes[bound.device_name] += millrace::DeviceBytes(*bound.program);
  }
  return bytes;
}

}  // namespace millrace
