// A loop runs its body any number of times, so what is proved is one trip, whichever: from bytes
// that hold, before any trip, at least what the proof starts from. In the body's inputs that is a
// term that stands for this trip's value; in stacks, a term for what earlier trips put there; in
// all other bytes what they held before the loop, unless a trip writes them, for then they hold
// nothing that is the same in all trips. At the end of the trip the outputs are as the graph says,
// so carried places hold the next trip's values and stacks one element more, and the next trip
// starts from no less than this one did.
//
// Which bytes a trip writes is found by running it from the state before the loop. After the loop,
// a byte that a trip writes is known only if it holds what it held before.
#include <utility>
#include <vector>

#include "graph/check/section_effects.h"

namespace millrace {

void SectionEffects::RunLoop(const Accessor& who, const CallRun& run) {
  const auto& [call, form, node, inputs] = run;
  const CallBody& body = call.bodies[0];
  for (size_t k = 0; k < form.inputs.size(); ++k) {
    const BodyPort& port = form.inputs[k];
    if (port.kind != PortKind::kSame && port.kind != PortKind::kCarried) continue;
    CheckBorder(who, run, body, body.inputs[k], call.inputs[port.operand]);
    if (port.kind == PortKind::kCarried) ReadInput(who, run, port.operand);
  }
  for (int i = 0; i < form.num_carried; ++i) {
    const SliceId place = body.inputs[form.first_carried_in + i];
    CheckBorder(who, run, body, body.outputs[form.first_carried_out + i], place);
    CheckBorder(who, run, body, place,
                call.outputs[form.outputs[form.first_carried_out + i].operand]);
  }
  std::vector<OldContent> written = RunTrip(who, run, {});
  written = RunTrip(who, run, written);
  std::vector<std::vector<OldContent>> none_or_many(2);
  none_or_many[0] = std::move(written);
  MergeBodies(who.site, kTripsTerm, std::move(none_or_many));
}

// `written`: what a trip writes.
std::vector<OldContent> SectionEffects::RunTrip(const Accessor& who, const CallRun& run,
                                                std::span<const OldContent> written) {
  return Rehearse([&] {
    for (const OldContent& piece : written) {
      memory_.ChangeContent(piece.site, piece.buffer, piece.begin, piece.end,
                            [](const Content&) { return Content{.term = kTripsTerm}; });
    }
    BeginTrip(who, run);
    RunInstructions(who, run.call.bodies[0]);
    EndTrip(who, run);
  });
}

void SectionEffects::BeginTrip(const Accessor& who, const CallRun& run) {
  const auto& [call, form, node, inputs] = run;
  const CallBody& body = call.bodies[0];
  for (int i = 0; i < form.num_carried; ++i) {
    WriteTrip(who, body.inputs[form.first_carried_in + i]);
  }
  for (const BodyPort& port : form.outputs) {
    if (port.kind == PortKind::kElement) WriteTrip(who, call.outputs[port.operand]);
  }
  for (size_t k = 0; k < form.inputs.size(); ++k) {
    const PortKind kind = form.inputs[k].kind;
    if (kind == PortKind::kTrip || kind == PortKind::kCondition) WriteTrip(who, body.inputs[k]);
  }
  for (size_t k = 0; k < form.inputs.size(); ++k) {
    if (form.inputs[k].kind != PortKind::kElement || !body.inputs[k].valid()) continue;
    ReadInput(who, run, form.inputs[k].operand);
    WriteTrip(who, body.inputs[k]);
  }
}

void SectionEffects::EndTrip(const Accessor& who, const CallRun& run) {
  const auto& [call, form, node, inputs] = run;
  const CallBody& body = call.bodies[0];
  const int32_t graph = model_.graphs.Nested(node, 0);
  for (size_t k = 0; k < form.outputs.size(); ++k) {
    if (form.outputs[k].kind != PortKind::kElement) continue;
    const SliceId stack = call.outputs[form.outputs[k].operand];
    PlacedSlice place;
    if (!stack.valid() || !memory_.Place(who, stack, "", place)) continue;
    ReadOutput(who, graph, body, k);
    memory_.Read(who, place, TripTermOf(who, stack));
    WriteTrip(who, stack);
  }
  for (size_t k = 0; k < form.outputs.size(); ++k) {
    if (form.outputs[k].kind != PortKind::kElement) ReadOutput(who, graph, body, k);
  }
}

int32_t SectionEffects::TripTermOf(const Accessor& who, SliceId slice) {
  const Program& program = model_.program(sites_[who.site].program);
  return expectations_.TripTerm(program.slices[slice.index].value, who.microbatch);
}

void SectionEffects::WriteTrip(const Accessor& who, SliceId slice) {
  PlacedSlice place;
  if (!slice.valid() || !memory_.Place(who, slice, "", place)) return;
  memory_.Write(who, place, TripTermOf(who, slice));
}

}  // namespace millrace
