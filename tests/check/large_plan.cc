#include "tests/check/large_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kValueBytes = 64;
constexpr int64_t kRingSlots = 64;

}  // namespace

PlanBundle LargePlan(const LargePlanOptions& options) {
  PlanBundle plan;
  plan.name = "large";
  plan.microbatches = options.microbatches;
  const TensorType type{DType::kF32, {kValueBytes / 4}};
  GraphBuilder b("large");
  std::vector<ValueId> values = {b.Input("x", type)};
  const int64_t back = options.streams;
  for (int64_t n = 0; n < options.nodes; ++n) {
    const ValueId before = values[std::max<int64_t>(0, n - back)];
    const ValueId v = b.Op("Fn", {values[n], before}, {}, StrCat("n", n));
    b.graph().value(v).type = type;
    b.graph().value(v).typed = true;
    values.push_back(v);
  }
  b.Output(values.back());
  plan.graph = std::move(b).Build();

  Program& p = plan.programs.emplace_back();
  p.name = "p";
  p.device_kind = "cpu";
  p.segments.push_back({"all", 0, {}});
  for (int s = 0; s < options.streams; ++s) {
    p.streams.push_back({StrCat("s", s), StreamKind::kCompute, 1, 0});
    p.events.push_back(StrCat("e", s));
  }
  LinearExpr per_microbatch;
  per_microbatch.terms.push_back({.variable = kMicrobatchVar, .scale = kValueBytes});
  const int64_t ends = 2 * options.microbatches * kValueBytes;  // input and output slots
  const auto offset_of = [&](int64_t v) {
    if (v == 0) return per_microbatch;
    if (v == options.nodes) {
      LinearExpr e = per_microbatch;
      e.base = ends / 2;
      return e;
    }
    return LinearExpr(ends + (options.reuse ? v % kRingSlots : v - 1) * kValueBytes);
  };
  for (int64_t v = 0; v <= options.nodes; ++v) {
    Slice slice;
    slice.value = {0, values[v]};
    slice.buffer = BufferId(0);
    slice.offset_bytes = offset_of(v);
    slice.size_bytes = kValueBytes;
    p.slices.push_back(std::move(slice));
  }
  p.buffers.push_back({"arena", MemorySpace::kDevice,
                       ends + (options.reuse ? kRingSlots : options.nodes) * kValueBytes});
  p.inputs = {{values[0], SliceId(0)}};
  p.outputs = {{values.back(), SliceId(options.nodes)}};

  std::vector<Instruction>& list = p.segments[0].instructions;
  for (int64_t n = 0; n < options.nodes; ++n) {
    const StreamId stream(n % options.streams);
    const bool waits = options.streams > 1;
    if (waits && n > 0) list.push_back({stream, Wait{EventId((n - 1) % options.streams)}});
    const SliceId before(std::max<int64_t>(0, n - back));
    list.push_back(
        {stream, Launch{NodeId(n), 0, "ref", {SliceId(n), before}, {SliceId(n + 1)}, SliceId()}});
    if (waits) list.push_back({stream, Record{EventId(n % options.streams)}});
  }
  // The next microbatch begins anew: all streams have followed the last node.
  if (options.streams > 1) {
    for (int s = 0; s < options.streams; ++s) {
      list.push_back({StreamId(s), Wait{EventId((options.nodes - 1) % options.streams)}});
    }
  }
  for (int32_t mb = 0; mb < options.microbatches; ++mb) p.step.push_back({SegmentId(0), mb});
  return plan;
}

}  // namespace millrace
