// The order of the check: structure; capacity; what each section computes how often; who meets
// whom; then all accesses in a happens-before order, from the session's loads through init and as
// many steps as it takes to see that the next would be no different, and finish after each.
#include "graph/check/check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "graph/check/capacity.h"
#include "graph/check/communication.h"
#include "graph/check/expectations.h"
#include "graph/check/happens_before.h"
#include "graph/check/memory_model.h"
#include "graph/check/mesh_classes.h"
#include "graph/check/plan_model.h"
#include "graph/check/plan_names.h"
#include "graph/check/section_effects.h"
#include "graph/check/steady_state.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kMaxSteps = 64;
constexpr int64_t kMaxBuffers = int64_t{1} << 22;        // of all sites
constexpr int64_t kMaxSiteInstances = int64_t{1} << 26;  // of all sites
constexpr std::array kSections = {Section::kInit, Section::kStep, Section::kFinish};

class PlanRun {
 public:
  PlanRun(const PlanModel& model, const MeshClasses& classes, ErrorList& errors)
      : model_(model),
        plan_(*model.plan),
        classes_(classes),
        names_(model, classes),
        sites_(SitesOf(model, classes)),
        errors_(errors),
        memory_(names_, classes, sites_, terms_, errors) {}

  // What can be said before looking at memory. False: what follows would only be echoes.
  bool Prepare() {
    const int64_t before = errors_.total();
    for (const Section s : kSections) {
      if (!IndexSection(model_, s, indices_[static_cast<int>(s)], errors_)) return false;
      for (const PlanSite& site : sites_) {
        instances_ += std::ssize(IndexOf(s).programs[site.program].instances);
      }
    }
    if (instances_ > kMaxSiteInstances) {
      errors_.Add(PlanRule::kStructure,
                  StrCat("the plan runs ", instances_, " instructions on the devices that differ; ",
                         "at most ", kMaxSiteInstances, " can be checked"));
      return false;
    }
    if (errors_.total() != before) return false;
    for (const Section s : kSections) {
      PairCommunication(model_, classes_, sites_, IndexOf(s), meetings_[static_cast<int>(s)],
                        errors_);
    }
    return errors_.total() == before;
  }

  void Run() {
    CheckBindings();
    ParamTerms params;
    {
      Expectations loads(model_, classes_, IndexOf(Section::kInit), params, terms_);
      params = LoadedParams(model_, classes_, loads);
      FillBindings(&Program::loads, loads, 1);
    }
    if (!RunSection(Section::kInit, params)) return;
    BeginNextStep(model_, classes_, terms_, params, memory_);
    for (int step = 0; step < kMaxSteps; ++step) {
      if (!RunFinish(params)) return;
      const MemorySnapshot before = TakeSnapshot(terms_, memory_);
      const std::vector<int32_t> params_before = params.terms;
      if (!RunSection(Section::kStep, params)) return;
      BeginNextStep(model_, classes_, terms_, params, memory_);
      if (params.terms == params_before && Holds(memory_, before)) return;
    }
    errors_.Add(PlanRule::kStaleRead,
                StrCat("each of the first ", kMaxSteps,
                       " steps leaves less in memory than it found; whether later ones still find "
                       "what they read cannot be told"));
  }

  int64_t instances() const { return instances_; }
  int64_t accesses() const { return memory_.accesses(); }

 private:
  const SectionIndex& IndexOf(Section s) const { return indices_[static_cast<int>(s)]; }

  // Runs a section and turns `params` into their newest terms. False when errors were found.
  bool RunSection(Section section, ParamTerms& params) {
    const int64_t before = errors_.total();
    const SectionIndex& index = IndexOf(section);
    Expectations expectations(model_, classes_, index, params, terms_);
    if (section == Section::kStep) {
      FillBindings(&Program::inputs, expectations, plan_.microbatches);
    }
    const Communication& meetings = meetings_[static_cast<int>(section)];
    HappensBefore order(names_, sites_, index, meetings, errors_);
    SectionEffects effects(names_, sites_, index, order, expectations, terms_, memory_, errors_);
    memory_.BeginSection(index, order);
    const bool ended = order.Run([&](std::span<const Arrival> arrivals, ClockView clock) {
      effects.Visit(arrivals, clock);
      return !memory_.exhausted();
    });
    memory_.EndSection();
    if (!ended || GivesUp()) return false;
    ParamTerms newest = NewestParams(section, expectations, params);
    if (section == Section::kStep) CheckOutputs(expectations);
    CheckHomes(section, newest);
    if (GivesUp()) return false;
    params = std::move(newest);
    return errors_.total() == before;
  }

  bool GivesUp() {
    if (!memory_.exhausted()) return false;
    errors_.AddOnce(PlanRule::kStructure, absl::HashOf('g'), {}, 0,
                    [] { return std::string("the plan touches too many bytes to check"); });
    return true;
  }

  // Finish may come after any number of steps. It runs on a copy of memory.
  bool RunFinish(const ParamTerms& params) {
    if (plan_.programs.empty() || instances_of(Section::kFinish) == 0) return true;
    const std::vector<std::vector<ByteMap>> saved = memory_.maps();
    ParamTerms copy = params;
    const bool ok = RunSection(Section::kFinish, copy);
    memory_.maps() = saved;
    return ok;
  }

  int64_t instances_of(Section s) const {
    int64_t count = 0;
    for (const ProgramSection& p : IndexOf(s).programs) count += std::ssize(p.instances);
    return count;
  }

  void FillBindings(std::vector<Binding> Program::*bindings, Expectations& expectations,
                    int32_t microbatches) {
    for (int32_t s = 0; s < std::ssize(sites_); ++s) {
      for (const Binding& binding : model_.program(sites_[s].program).*bindings) {
        for (int32_t mb = 0; mb < microbatches && !memory_.exhausted(); ++mb) {
          PlacedSlice place;
          if (!memory_.Place({.site = s, .microbatch = mb, .clock = {}}, binding.slice, "",
                             place)) {
            continue;
          }
          memory_.Fill(s, place,
                       expectations.LeafTerm(sites_[s].coordinate, {0, binding.value}, mb));
        }
      }
    }
    memory_.Settle();
  }

  // What no run is needed to see: outputs that nobody holds, params that nobody keeps.
  void CheckBindings() {
    for (ValueId output : plan_.graph.outputs) {
      if (model_.is_output[output.index]) continue;
      errors_.Add(PlanRule::kBinding, StrCat("binding: no program gives output '",
                                             plan_.graph.value(output).name, "'"));
    }
    for (const Update& update : plan_.graph.updates) {
      if (model_.is_filled[update.param.index]) continue;
      errors_.Add(PlanRule::kBinding,
                  StrCat("binding: no program keeps param '", plan_.graph.value(update.param).name,
                         "', which the graph updates"));
    }
  }

  // Programs that compute an update must agree on what it is; others take it from them.
  ParamTerms NewestParams(Section section, Expectations& expectations, const ParamTerms& start) {
    ParamTerms newest = start;
    if (section != Section::kStep) return newest;
    for (int32_t c = 0; c < std::ssize(classes_.coordinates); ++c) {
      for (const Update& update : plan_.graph.updates) {
        const int32_t place = model_.graphs.param_place[update.param.index];
        int32_t first = -1;  // program that computes it
        for (int32_t p = 0; p < std::ssize(plan_.programs); ++p) {
          bool fired = false;
          const int32_t term = expectations.NewestParam(c, update.param, p, fired);
          if (p == 0 || (fired && first < 0)) newest.at(c, place) = term;
          if (!fired) continue;
          if (first >= 0 && term != newest.at(c, place)) ReportDisagreement(update, first, p);
          if (first < 0) first = p;
        }
      }
    }
    return newest;
  }

  void ReportDisagreement(const Update& update, int32_t first, int32_t second) {
    errors_.AddOnce(PlanRule::kCompute, absl::HashOf(update.param.index, second, 'd'),
                    AtEnd(Section::kStep), 0, [&] {
                      return StrCat("compute: programs '", plan_.programs[first].name, "' and '",
                                    plan_.programs[second].name, "' end the step with different '",
                                    plan_.graph.value(update.value).name, "' for param '",
                                    plan_.graph.value(update.param).name, "'");
                    });
  }

  static ErrorPlace AtEnd(Section section) {
    return {static_cast<int32_t>(section), std::numeric_limits<int32_t>::max(), 0};
  }

  void CheckHomes(Section section, const ParamTerms& newest) {
    for (int32_t s = 0; s < std::ssize(sites_); ++s) {
      for (const Binding& home : model_.program(sites_[s].program).loads) {
        const Value& value = plan_.graph.value(home.value);
        if (value.kind != ValueKind::kParam) continue;
        const int32_t place = model_.graphs.param_place[home.value.index];
        const int32_t term = newest.at(sites_[s].coordinate, place);
        const bool holds = ExpectAtEnd(section, s, home.slice, 0, term,
                                       StrCat("param '", value.name, "'"), ValueNeeded(home.value));
        // It may go by the name of what it is a view of, which the next step does not know.
        if (holds) memory_.NameContent(s, PlaceOf(s, home.slice), term);
      }
    }
  }

  // The result that a param becomes.
  ValueId ValueNeeded(ValueId param) const {
    const int32_t update = model_.graphs.update_of[param.index];
    return update >= 0 ? plan_.graph.updates[update].value : param;
  }

  void CheckOutputs(Expectations& expectations) {
    for (int32_t s = 0; s < std::ssize(sites_); ++s) {
      for (const Binding& output : model_.program(sites_[s].program).outputs) {
        for (int32_t mb = 0; mb < plan_.microbatches && !memory_.exhausted(); ++mb) {
          const int32_t term = expectations.TermOf(sites_[s].coordinate, {0, output.value}, mb,
                                                   {sites_[s].program, 0});
          ExpectAtEnd(
              Section::kStep, s, output.slice, mb, term,
              StrCat("output '", plan_.graph.value(output.value).name, "' of microbatch ", mb),
              output.value);
        }
      }
    }
  }

  PlacedSlice PlaceOf(int32_t s, SliceId slice) {
    PlacedSlice place;
    memory_.Place({.site = s, .microbatch = 0, .clock = {}}, slice, "", place);
    return place;
  }

  // False, with an error, when the bytes hold something else.
  bool ExpectAtEnd(Section section, int32_t s, SliceId slice, int32_t microbatch, int32_t term,
                   const std::string& what, ValueId value) {
    PlacedSlice place;
    if (!memory_.Place({.site = s, .microbatch = microbatch, .clock = {}}, slice, "", place))
      return false;
    const std::optional<ByteMap::Cell> other = memory_.FindOther(s, place, term);
    if (!other.has_value()) return true;
    const bool computed = IsComputed(value);
    const PlanRule rule = computed ? PlanRule::kBinding : PlanRule::kCompute;
    const uint64_t key = absl::HashOf(sites_[s].program, slice.index, static_cast<int>(rule));
    errors_.AddOnce(rule, key, AtEnd(section), 0, [&] {
      return StrCat(
          PlanRuleName(rule), " in ", names_.SiteName(sites_[s]), " ",
          names_.BytesName(sites_[s], place.buffer, other->begin, other->end), ": at the end of ",
          SectionName(section), " ", what, " must be there, which is ",
          names_.TermName(terms_, term), "; the bytes hold ", memory_.Describe(s, *other),
          computed ? ""
                   : StrCat("; no instruction computes '", plan_.graph.value(value).name, "'"));
    });
    return false;
  }

  bool IsComputed(ValueId id) const {
    const Value& value = plan_.graph.value(id);
    if (value.kind != ValueKind::kResult) return true;
    for (int32_t mb = 0; mb < plan_.microbatches; ++mb) {
      for (const SectionIndex& index : indices_) {
        if (index.FindExecution(value.producer.index, mb) != nullptr) return true;
      }
    }
    return false;
  }

  const PlanModel& model_;
  const PlanBundle& plan_;
  const MeshClasses& classes_;
  const PlanNames names_;
  const std::vector<PlanSite> sites_;
  ErrorList& errors_;
  std::array<SectionIndex, 3> indices_;
  std::array<Communication, 3> meetings_;
  Terms terms_;
  MemoryModel memory_;
  int64_t instances_ = 0;
};

bool FitsInMemory(const PlanBundle& plan, const MeshClasses& classes, ErrorList& errors) {
  int64_t buffers = 0;
  for (const Program& p : plan.programs) {
    buffers += (1 + std::ssize(p.buffers)) * std::ssize(classes.coordinates);
    if (buffers <= kMaxBuffers) continue;
    errors.Add(PlanRule::kStructure, StrCat("the plan has more than ", kMaxBuffers,
                                            " buffers on devices that differ; too many to check"));
    return false;
  }
  return true;
}

}  // namespace

std::string_view PlanRuleName(PlanRule rule) {
  constexpr std::string_view kNames[] = {"structure",  "bounds",   "space",    "compute",
                                         "stale read", "race",     "alias",    "event",
                                         "comm",       "deadlock", "capacity", "binding"};
  return kNames[static_cast<int>(rule)];
}

CheckReport CheckPlan(const PlanBundle& plan, const OpTraitsTable& traits,
                      const MachineSpec* machine) {
  CheckReport report;
  ErrorList errors;
  const PlanModel model = CheckStructure(plan, traits, errors);
  if (errors.ok()) {
    if (machine != nullptr) CheckCapacity(plan, *machine, errors);
    CheckMailboxes(model, errors);
    const int64_t before = errors.total();
    const MeshClasses classes = FindMeshClasses(model, errors);
    if (errors.total() == before && FitsInMemory(plan, classes, errors)) {
      PlanRun run(model, classes, errors);
      if (run.Prepare()) run.Run();
      report.instructions = run.instances();
      report.accesses = run.accesses();
    }
  }
  report.errors = errors.Sorted();
  report.total_errors = errors.total();
  return report;
}

std::string FormatReport(const CheckReport& report) {
  if (report.ok()) {
    return StrCat("ok: ", report.instructions, " instructions and ", report.accesses,
                  " accesses: each read finds its value, nothing races, nothing deadlocks");
  }
  std::string text = StrCat("plan refused: ", report.total_errors,
                            report.total_errors == 1 ? " error" : " errors");
  for (size_t i = 0; i < report.errors.size(); ++i) {
    StrAppend(&text, "\n", i + 1, ". ", report.errors[i].message);
  }
  const int64_t more = report.total_errors - std::ssize(report.errors);
  if (more > 0) StrAppend(&text, "\n... and ", more, " more");
  return text;
}

absl::StatusOr<CheckedPlan> CheckedPlan::Check(PlanBundle plan, const OpTraitsTable& traits,
                                               const MachineSpec* machine) {
  const CheckReport report = CheckPlan(plan, traits, machine);
  if (!report.ok()) return CheckFailedError(FormatReport(report));
  return CheckedPlan(std::move(plan));
}

}  // namespace millrace
