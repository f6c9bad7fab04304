// Starts the ranks of a job on this machine, as processes of this program.
#ifndef MILLRACE_TOOLS_SPAWN_H_
#define MILLRACE_TOOLS_SPAWN_H_

#include "graph/status.h"

namespace millrace {

// Starts `ranks` processes with this process's own command line and waits for all. When one ends
// badly, the others have some seconds to wind up. The error has the exit code of the rank whose
// fault it is; it has a message only when no rank could give it.
absl::Status SpawnRanks(int ranks);

// This process was started so.
bool IsSpawned();
// From now on this process, which was, ends with the one that started it.
void EndWithSpawner();

}  // namespace millrace

#endif  // MILLRACE_TOOLS_SPAWN_H_
