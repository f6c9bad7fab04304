// Small changes to a plan, its parts found by name: for tests that break plans, or change them
// harmlessly. Paths are "stage0/forward" for a segment, "stage0/forward/wait a_ready" for the first
// instruction there whose description (DescribeInstruction) starts so, and "stage0/a@swap" for the
// first slice of a value in a buffer ("#2" after it: the second). What is not there aborts the
// test.
#ifndef MILLRACE_TESTS_PLAN_PLAN_EDIT_H_
#define MILLRACE_TESTS_PLAN_PLAN_EDIT_H_

#include <string_view>

#include "graph/assert.h"
#include "graph/plan.h"

namespace millrace {

Program& ProgramAt(PlanBundle& plan, std::string_view name);
BufferId BufferIdAt(PlanBundle& plan, std::string_view path);  // "stage0/arena"
StreamId StreamIdAt(PlanBundle& plan, std::string_view path);  // "stage0/main"
EventId EventIdAt(PlanBundle& plan, std::string_view path);    // "stage0/a_ready"
SegmentId SegmentIdAt(PlanBundle& plan, std::string_view path);
Segment& SegmentAt(PlanBundle& plan, std::string_view path);

SliceId SliceIdAt(PlanBundle& plan, std::string_view path);
Slice& SliceAt(PlanBundle& plan, std::string_view path);
PlanBuffer& BufferAt(PlanBundle& plan, std::string_view path);
// A new slice like the one at `path`, elsewhere.
SliceId AddSliceLike(PlanBundle& plan, std::string_view path, LinearExpr offset_bytes);

Instruction& InstructionAt(PlanBundle& plan, std::string_view path);
template <typename Body>
Body& BodyAt(PlanBundle& plan, std::string_view path) {
  Body* body = std::get_if<Body>(&InstructionAt(plan, path).body);
  MILLRACE_CHECK(body != nullptr);
  return *body;
}

void Erase(PlanBundle& plan, std::string_view path);
// A new instruction right before or after the one at `path`.
void InsertBefore(PlanBundle& plan, std::string_view path, Instruction instruction);
void InsertAfter(PlanBundle& plan, std::string_view path, Instruction instruction);
// Takes the instruction at `path` to right before or after the one that `to` finds in the same
// segment.
void MoveBefore(PlanBundle& plan, std::string_view path, std::string_view to);
void MoveAfter(PlanBundle& plan, std::string_view path, std::string_view to);

// An event of the program, new.
EventId AddEvent(PlanBundle& plan, std::string_view program, std::string_view name);
// The program's step as "forward 0, forward 1, backward 0".
void SetStep(PlanBundle& plan, std::string_view program, std::string_view schedule);

// base + stride * mb, or base + stride * (mb mod modulus).
LinearExpr SlotExpr(int64_t base, int64_t stride, int64_t modulus = 0);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PLAN_PLAN_EDIT_H_
