// Measures what this machine does at most, for a MachineSpec: memory bandwidth, peak arithmetic,
// the run loop's own time, the speed of a folder.
#ifndef MILLRACE_TOOLS_MEASURE_MACHINE_H_
#define MILLRACE_TOOLS_MEASURE_MACHINE_H_

#include <string>

#include "graph/machine.h"
#include "graph/status.h"

namespace millrace {

struct MeasureMachineOptions {
  int threads = 0;          // of the cpu device; 0: all cores
  std::string folder = {};  // for offloading; empty: the system's folder for temporary files
};

// One node with one cpu device, "cpu:0", its rates measured: the best of several tries each, since
// whatever else runs can only make them worse. Takes some seconds. UsageError for a folder that
// cannot be written to.
absl::StatusOr<MachineSpec> MeasureMachine(const MeasureMachineOptions& options);

// The parts.
double MeasureMemoryBandwidth(int threads);         // bytes/s, read and written
double MeasurePeakFlops(DType dtype, int threads);  // FLOP/s; kF32 or kF64
absl::StatusOr<double> MeasureLaunchOverheadUs();   // of a kernel that does nothing
absl::StatusOr<double> MeasureFileBandwidth(const std::string& folder);  // bytes/s, to the disk

}  // namespace millrace

#endif  // MILLRACE_TOOLS_MEASURE_MACHINE_H_
