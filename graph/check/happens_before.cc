// Vector clocks. Each stream has a clock with one entry per stream of all sites: how many of that
// stream's instances have ended when the next one of this stream begins. A Wait joins the clock its
// Record left; those who meet join each other's. An earlier instance (stream s, place n) must have
// ended before a later one exactly when the later one's clock has at least n for s.
//
// Of the streams that can go on, the one whose head was issued first goes on, so that errors come
// up in issue order and few snapshots are alive. When none can and some have not ended, following
// what each waits for leads into a cycle. O(instances * log streams + joins * streams) time; memory
// for streams^2 and the records still to be waited for.
#include "graph/check/happens_before.h"

#include <algorithm>
#include <tuple>

#include "absl/hash/hash.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxStreams = 8192;
constexpr int64_t kMaxWork = int64_t{1} << 34;  // clock entries joined: about ten seconds

}  // namespace

HappensBefore::HappensBefore(const PlanNames& names, std::span<const PlanSite> sites,
                             const SectionIndex& index, const Communication& communication,
                             ErrorList& errors)
    : names_(names), sites_(sites), index_(index), communication_(communication), errors_(errors) {
  for (int32_t site = 0; site < std::ssize(sites); ++site) {
    first_stream_.push_back(static_cast<int32_t>(streams_.size()));
    for (int32_t s = 0; s < std::ssize(SectionOf(site).streams); ++s) {
      streams_.push_back({.site = site, .stream = s, .waiting = {}});
    }
  }
  arrived_.assign(communication.rendezvous.size(), 0);
}

const Instruction& HappensBefore::InstructionAt(int32_t site, int32_t instance) const {
  const int32_t p = sites_[site].program;
  return InstructionOf(names_.model().program(p), index_.section,
                       index_.programs[p].instances[instance]);
}

bool HappensBefore::Run(Visit visit) {
  if (std::ssize(streams_) > kMaxStreams) {
    errors_.Add(PlanRule::kStructure, StrCat("the plan has ", streams_.size(), " streams; at most ",
                                             kMaxStreams, " can be checked"));
    return false;
  }
  width_ = static_cast<int32_t>(streams_.size());
  clocks_.assign(static_cast<size_t>(width_) * width_, 0);
  joint_.resize(width_);
  for (int32_t s = 0; s < width_; ++s) MakeReady(s);
  while (!ready_.empty()) {
    const int32_t stream = std::get<2>(ready_.top());
    ready_.pop();
    // Stay with the stream while it is first anyway.
    do {
      if (!Step(stream, visit)) break;
    } while (!stopped_ && !HasEnded(streams_[stream]) &&
             (ready_.empty() ||
              Ready{HeadOf(streams_[stream]), streams_[stream].site, stream} < ready_.top()));
    if (stopped_) return false;
    if (work_ > kMaxWork) {
      errors_.Add(PlanRule::kStructure,
                  "the plan waits too often between too many streams to check");
      return false;
    }
    if (!streams_[stream].blocked) MakeReady(stream);
  }
  if (std::ranges::all_of(streams_, [&](const Stream& s) { return HasEnded(s); })) return true;
  ReportDeadlock();
  return false;
}

void HappensBefore::MakeReady(int32_t stream) {
  Stream& s = streams_[stream];
  s.blocked = false;
  if (!HasEnded(s)) ready_.push({HeadOf(s), s.site, stream});
}

bool HappensBefore::Step(int32_t stream, Visit visit) {
  Stream& s = streams_[stream];
  const int32_t id = HeadOf(s);
  const IssuedInstance& instance = SectionOf(s.site).instances[id];
  const InstructionBody& body = InstructionAt(s.site, id).body;
  if (std::holds_alternative<Wait>(body)) {
    if (instance.link >= 0 && !StepWait(stream, instance.link)) return false;
    Advance(stream);
  } else if (std::holds_alternative<Record>(body)) {
    Advance(stream);
    if (instance.link > 0) TakeSnapshot(stream, id, instance.link);
  } else if (instance.link >= 0) {
    return StepRendezvous(stream, communication_.rendezvous_of[s.site][instance.link], visit);
  } else {
    const Arrival alone{s.site, id};
    stopped_ |= !visit(std::span(&alone, 1), ClockOf(stream));
    Advance(stream);
  }
  return true;
}

void HappensBefore::Join(std::span<int32_t> into, std::span<const int32_t> from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
  work_ += width_;
}

bool HappensBefore::StepWait(int32_t stream, int32_t record) {
  Stream& s = streams_[stream];
  const IssuedInstance& r = SectionOf(s.site).instances[record];
  const int32_t recorder = first_stream_[s.site] + r.stream;
  if (streams_[recorder].done < r.sequence) {
    s.blocked = true;
    streams_[recorder].waiting.push_back({r.sequence, stream});
    return false;
  }
  const auto it = snapshot_of_.find((int64_t{s.site} << 32) | record);
  Join(ClockOf(stream),
       std::span(snapshots_).subspan(static_cast<size_t>(it->second.slot) * width_, width_));
  if (--it->second.waits_left == 0) {
    free_slots_.push_back(it->second.slot);
    snapshot_of_.erase(it);
  }
  return true;
}

void HappensBefore::TakeSnapshot(int32_t stream, int32_t record, int32_t waits) {
  int32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<int32_t>(snapshots_.size() / width_);
    snapshots_.resize(snapshots_.size() + width_);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const auto clock = ClockOf(stream);
  std::ranges::copy(clock, snapshots_.begin() + static_cast<ptrdiff_t>(slot) * width_);
  snapshot_of_[(int64_t{streams_[stream].site} << 32) | record] = {slot, waits};
  work_ += width_;
}

bool HappensBefore::StepRendezvous(int32_t stream, int32_t rendezvous, Visit visit) {
  const std::span<const Arrival> arrivals = communication_.ArrivalsOf(rendezvous);
  if (++arrived_[rendezvous] < std::ssize(arrivals)) {
    streams_[stream].blocked = true;
    return false;
  }
  std::ranges::fill(joint_, 0);
  for (const Arrival& a : arrivals) Join(joint_, ClockOf(StreamOf(a)));
  for (const Arrival& a : arrivals) CheckChannelOrder(a, ClockOf(StreamOf(a)));
  stopped_ |= !visit(arrivals, joint_);
  for (const Arrival& a : arrivals) ++joint_[StreamOf(a)];
  for (const Arrival& a : arrivals) {
    const int32_t other = StreamOf(a);
    std::ranges::copy(joint_, ClockOf(other).begin());
    Advance(other);
    if (other != stream) MakeReady(other);
  }
  work_ += width_ * std::ssize(arrivals);
  return true;
}

void HappensBefore::Advance(int32_t stream) {
  Stream& s = streams_[stream];
  ++s.done;
  ClockOf(stream)[stream] = s.done;
  if (s.waiting.empty()) return;
  std::erase_if(s.waiting, [&](const auto& waiting) {
    if (waiting.first > s.done) return false;
    woken_.push_back(waiting.second);
    return true;
  });
  for (int32_t other : woken_) MakeReady(other);
  woken_.clear();
}

// Whoever comes to a channel first takes the first message, so that must be the one issued first.
void HappensBefore::CheckChannelOrder(const Arrival& a, ClockView clock) {
  const IssuedInstance& i = SectionOf(a.site).instances[a.instance];
  const int32_t previous = communication_.previous_of[a.site][i.link];
  if (previous < 0 || IsBefore(a.site, previous, clock)) return;
  const PlanSite site = sites_[a.site];
  const ErrorPlace place{static_cast<int32_t>(index_.section), a.instance, a.site};
  errors_.AddOnce(PlanRule::kComm, absl::HashOf(site.program, i.item, i.index, 'o'), place, 0, [&] {
    return StrCat("comm in ", names_.SiteName(site), " ", SectionName(index_.section), ": ",
                  names_.InstanceName(site, index_, previous), " and ",
                  names_.InstanceName(site, index_, a.instance),
                  " use one channel, and nothing orders them");
  });
}

Arrival HappensBefore::WaitsFor(const Stream& s) const {
  const IssuedInstance& head = SectionOf(s.site).instances[HeadOf(s)];
  if (std::holds_alternative<Wait>(InstructionAt(s.site, HeadOf(s)).body)) {
    return {s.site, head.link};
  }
  const int32_t rendezvous = communication_.rendezvous_of[s.site][head.link];
  for (const Arrival& a : communication_.ArrivalsOf(rendezvous)) {
    if (HeadOf(streams_[StreamOf(a)]) != a.instance) return a;
  }
  MILLRACE_CHECK(false);  // then they would have met
  return {};
}

void HappensBefore::ReportDeadlock() {
  int32_t at = 0;
  while (HasEnded(streams_[at])) ++at;
  // After as many steps as there are streams, we are on the cycle.
  for (int32_t i = 0; i < width_; ++i) at = StreamOf(WaitsFor(streams_[at]));
  std::vector<int32_t> cycle;
  for (int32_t s = at; cycle.empty() || s != at; s = StreamOf(WaitsFor(streams_[s]))) {
    cycle.push_back(s);
  }
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string text = StrCat("deadlock in the ", SectionName(index_.section),
                            " section; these wait for each other:");
  for (size_t i = 0; i < cycle.size(); ++i) {
    const Stream& s = streams_[cycle[i]];
    const Arrival target = WaitsFor(s);
    StrAppend(&text, i == 0 ? " (" : "; (", i + 1, ") ", names_.SiteName(sites_[s.site]), " ",
              names_.InstanceName(sites_[s.site], index_, HeadOf(s)), " waits for ",
              names_.SiteName(sites_[target.site]), " ",
              names_.InstanceName(sites_[target.site], index_, target.instance),
              ", which is behind (", (i + 1) % cycle.size() + 1, ")");
  }
  errors_.Add(PlanRule::kDeadlock, std::move(text));
}

}  // namespace millrace
