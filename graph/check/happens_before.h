// HappensBefore: runs a section of all sites in some order its streams, events and meetings allow,
// and knows of each instance what must have ended before it. All orders allowed have the same
// happens-before relation, so one of them is enough.
#ifndef MILLRACE_GRAPH_CHECK_HAPPENS_BEFORE_H_
#define MILLRACE_GRAPH_CHECK_HAPPENS_BEFORE_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "graph/check/communication.h"
#include "graph/check/error_list.h"
#include "graph/check/plan_model.h"
#include "graph/check/plan_names.h"
#include "graph/check/section_index.h"

namespace millrace {

// By global stream: how many of its instances must have ended.
using ClockView = std::span<const int32_t>;

class HappensBefore {
 public:
  HappensBefore(const PlanNames& names, std::span<const PlanSite> sites, const SectionIndex& index,
                const Communication& communication, ErrorList& errors);

  // Calls `visit` once per instance that touches memory: alone, or with all it meets, whose bytes
  // move when all have begun. The clock says what has ended before. False when
  // `visit` says so, or at a deadlock, with an error that shows the cycle.
  using Visit = absl::FunctionRef<bool(std::span<const Arrival> arrivals, ClockView clock)>;
  bool Run(Visit visit);

  // Whether `instance` of `site` has ended before whatever `clock` belongs to.
  bool IsBefore(int32_t site, int32_t instance, ClockView clock) const {
    const IssuedInstance& i = SectionOf(site).instances[instance];
    return clock[first_stream_[site] + i.stream] >= i.sequence;
  }

 private:
  struct Stream {
    int32_t site = 0;
    int32_t stream = 0;    // of the site's section
    int32_t done = 0;      // instances that ended
    bool blocked = false;  // until a Record is reached or the others arrive
    std::vector<std::pair<int32_t, int32_t>> waiting;  // (needed `done`, stream that waits)
  };
  struct Snapshot {
    int32_t slot = 0;
    int32_t waits_left = 0;
  };

  const ProgramSection& SectionOf(int32_t site) const {
    return index_.programs[sites_[site].program];
  }
  const std::vector<int32_t>& QueueOf(const Stream& s) const {
    return SectionOf(s.site).streams[s.stream];
  }
  int32_t HeadOf(const Stream& s) const { return QueueOf(s)[s.done]; }
  bool HasEnded(const Stream& s) const { return s.done == std::ssize(QueueOf(s)); }
  const Instruction& InstructionAt(int32_t site, int32_t instance) const;
  std::span<int32_t> ClockOf(int32_t stream) {
    return std::span(clocks_).subspan(static_cast<size_t>(stream) * width_, width_);
  }

  void MakeReady(int32_t stream);
  // Runs the head of the stream; false when it must wait.
  bool Step(int32_t stream, Visit visit);
  bool StepWait(int32_t stream, int32_t record);
  bool StepRendezvous(int32_t stream, int32_t rendezvous, Visit visit);
  void TakeSnapshot(int32_t stream, int32_t record, int32_t waits);
  void Advance(int32_t stream);
  void CheckChannelOrder(const Arrival& arrival, ClockView clock);
  void Join(std::span<int32_t> into, std::span<const int32_t> from);

  // What a blocked stream waits for, and the cycle of such.
  Arrival WaitsFor(const Stream& s) const;
  int32_t StreamOf(const Arrival& a) const {
    return first_stream_[a.site] + SectionOf(a.site).instances[a.instance].stream;
  }
  void ReportDeadlock();

  const PlanNames& names_;
  std::span<const PlanSite> sites_;
  const SectionIndex& index_;
  const Communication& communication_;
  ErrorList& errors_;

  std::vector<int32_t> first_stream_;  // by site
  std::vector<Stream> streams_;
  int32_t width_ = 0;
  std::vector<int32_t> clocks_;  // of streams, width_ each
  std::vector<int32_t> joint_;
  std::vector<int32_t> snapshots_, free_slots_;
  absl::flat_hash_map<int64_t, Snapshot> snapshot_of_;  // by site and Record
  std::vector<int32_t> arrived_;                        // by rendezvous
  std::vector<int32_t> woken_;                          // scratch of Advance
  int64_t work_ = 0;
  bool stopped_ = false;  // by `visit`

  using Ready = std::tuple<int32_t, int32_t, int32_t>;  // instance, site, stream: issue order first
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_HAPPENS_BEFORE_H_
