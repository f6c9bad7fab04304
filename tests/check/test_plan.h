// TestPlan: small plans in few lines. Values are u8[2] unless said otherwise and named; an operand
// is "value@offset" or "value@buffer:offset" with an expression for the offset ("h@4+2*(mb%2)"), in
// the program's first buffer when none is named, "value#1@..." for a value of graph 1, "@..." for
// two bytes of scratch. The same text is the same slice.
#ifndef MILLRACE_TESTS_CHECK_TEST_PLAN_H_
#define MILLRACE_TESTS_CHECK_TEST_PLAN_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/check/check.h"
#include "graph/plan.h"

namespace millrace {

class TestPlan;

class TestProgram {
 public:
  TestProgram(TestPlan& owner, int index) : owner_(owner), index_(index) {}

  TestProgram& Buffer(std::string name, int64_t size, MemorySpace space = MemorySpace::kDevice);
  TestProgram& Load(std::string_view operand);
  TestProgram& In(std::string_view operand);
  TestProgram& Out(std::string_view operand);

  // What follows goes to this segment.
  TestProgram& Segment(std::string name, int32_t graph = 0);
  // Streams and events come to be when first named. Nodes are named after their first output.
  TestProgram& Launch(std::string_view stream, std::string_view node,
                      std::vector<std::string> inputs, std::vector<std::string> outputs,
                      std::string_view scratch = "");
  TestProgram& HostCall(std::string_view stream, std::string_view node,
                        std::vector<std::string> inputs, std::vector<std::string> outputs);
  TestProgram& Collective(std::string_view stream, std::string_view node, std::string_view input,
                          std::string_view output);
  TestProgram& Copy(std::string_view stream, std::string_view to, std::string_view from);
  TestProgram& Record(std::string_view stream, std::string_view event);
  TestProgram& Wait(std::string_view stream, std::string_view event);
  TestProgram& Send(std::string_view stream, std::string_view from, int peer, int channel = 0);
  TestProgram& Recv(std::string_view stream, std::string_view to, int peer, int channel = 0);
  TestProgram& Publish(std::string_view stream, std::string_view node, std::string_view from);
  TestProgram& TakeLatest(std::string_view stream, std::string_view node, std::string_view to);
  struct Body {
    std::string segment;
    std::vector<std::string> inputs, outputs;
  };
  TestProgram& Call(std::string_view stream, std::string_view node, std::vector<std::string> inputs,
                    std::vector<std::string> outputs, std::vector<Body> bodies);

  // Without one, all segments of graph 0 run in the step, in order, for each microbatch.
  TestProgram& Schedule(Section section,
                        std::vector<std::pair<std::string, int>> items);  // segment, microbatch

  Program& program() const;
  Slice& slice(std::string_view operand);
  // Peers of the last Send or Recv are at this coordinate.
  TestProgram& AtCoordinate(int axis, std::string_view expr);

 private:
  friend class TestPlan;
  SliceId SliceOf(std::string_view operand);
  std::vector<SliceId> SlicesOf(const std::vector<std::string>& operands);
  StreamId StreamOf(std::string_view name);
  EventId EventOf(std::string_view name);
  SegmentId SegmentOf(std::string_view name) const;
  TestProgram& Append(std::string_view stream, InstructionBody body);

  TestPlan& owner_;
  int index_;
  std::map<std::string, SliceId, std::less<>> slices_;
};

// Ops: Fn (pure), InPlace (output 0 over input 0), Whole, Join and Split (views), Random, Effect,
// HostIn (input 0 on the host), Dyn (by HostCall), If, Loop, Scan, comm.*.
OpTraitsTable TestTraits();

class TestPlan {
 public:
  explicit TestPlan(int microbatches = 1);
  TestPlan(const TestPlan&) = delete;

  TestPlan& Input(std::string name, Shape shape = {2}, DType dtype = DType::kU8);
  TestPlan& Param(std::string name, Shape shape = {2});
  TestPlan& Constant(std::string name, Shape shape = {2});
  // All outputs have the first one's shape.
  TestPlan& Node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 Shape shape = {2});
  TestPlan& Output(std::string_view name);
  TestPlan& Update(std::string_view param, std::string_view value);
  millrace::Node& node(std::string_view name);
  ValueId value(std::string_view name, int32_t graph = 0) const;
  NodeId node_id(std::string_view name, int32_t graph = 0) const;

  TestProgram& Program(std::string name = "p", std::string kind = "cpu");

  PlanBundle& plan() { return plan_; }
  // The plan with schedules that were not given.
  PlanBundle Build();
  CheckReport Check(const MachineSpec* machine = nullptr);

 private:
  friend class TestProgram;
  PlanBundle plan_;
  std::vector<std::unique_ptr<TestProgram>> programs_;
};

// x -> h -> y, of two bytes each.
void DeclareChain(TestPlan& plan);

// "" when accepted, else the first error's message.
std::string Verdict(TestPlan& plan, const MachineSpec* machine = nullptr);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CHECK_TEST_PLAN_H_
