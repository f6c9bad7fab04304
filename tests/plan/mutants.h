// The hand-written plan, broken: what each mutation does, and what the checker must say of it. And
// the same plan changed in ways that do no harm, which it must accept.
#ifndef MILLRACE_TESTS_PLAN_MUTANTS_H_
#define MILLRACE_TESTS_PLAN_MUTANTS_H_

#include <ostream>
#include <string>
#include <vector>

#include "graph/check/check.h"
#include "graph/plan.h"
#include "tests/plan/hand_written_plan.h"

namespace millrace {

struct Mutant {
  std::string name;
  void (*mutate)(PlanBundle& plan) = nullptr;
  PlanRule rule = PlanRule::kStructure;
  // One error of that rule says all of this: both instructions, the bytes, what is missing.
  std::vector<std::string> says;
  HandWrittenOptions options = {};
};

std::vector<Mutant> SyncMutants();      // waits, records, events, order across streams
std::vector<Mutant> MemoryMutants();    // slots, offsets, sizes, capacity, in place, scratch, swap
std::vector<Mutant> OperandMutants();   // ids, operands, nodes, schedules, params, bindings
std::vector<Mutant> TransferMutants();  // sends, receives, channels, deadlocks
std::vector<Mutant> NestedMutants();    // Call and its bodies, HostCall, memory spaces
std::vector<Mutant> AllMutants();

struct Variant {
  std::string name;
  void (*change)(PlanBundle& plan) = nullptr;
  HandWrittenOptions options = {};
};
std::vector<Variant> HarmlessVariants();

// For GoogleTest.
inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

}  // namespace millrace

#endif  // MILLRACE_TESTS_PLAN_MUTANTS_H_
