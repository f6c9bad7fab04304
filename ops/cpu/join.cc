// Concat and Split along any axis, any element type: with the dims before the axis as rows, a part
// is a run of bytes in each row of the whole.
#include "ops/cpu/copy_rows.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

struct Part {
  int operand = 0;           // index among the node's parts
  int64_t offset_bytes = 0;  // within a row of the whole
  int64_t row_bytes = 0;
};

// Where the parts lie in the whole. nullopt when they do not tile it.
struct JoinPlan {
  int64_t rows = 1;
  int64_t row_bytes = 0;
  std::vector<Part> parts;  // without the empty ones
};

std::optional<JoinPlan> MakePlan(const NodeQuery& query) {
  const bool concat = query.op == "Concat";
  if (!concat && query.op != "Split") return std::nullopt;
  const auto& whole = concat ? query.outputs[0] : query.inputs[0];
  const auto& parts = concat ? query.inputs : query.outputs;
  if (!whole.has_value() || whole->shape.rank() == 0) return std::nullopt;
  int64_t axis = query.attrs.Int("axis", 0);
  if (axis < 0) axis += whole->shape.rank();
  if (axis < 0 || axis >= whole->shape.rank()) return std::nullopt;

  JoinPlan plan;
  const Shape& shape = whole->shape;
  plan.rows = NumElements(Shape(shape.dims().first(axis)));
  plan.row_bytes = NumElements(Shape(shape.dims().subspan(axis))) * SizeOf(whole->dtype);
  int64_t joined = 0;  // of the axis
  for (size_t i = 0; i < parts.size(); ++i) {
    // A part of Split that nobody asked for has no type: its size, and where the next one starts,
    // are only known to the reference.
    if (!parts[i].has_value()) return std::nullopt;
    Shape expected = shape;
    if (parts[i]->shape.rank() != shape.rank()) return std::nullopt;
    expected[axis] = parts[i]->shape[axis];
    if (parts[i]->shape != expected || parts[i]->dtype != whole->dtype) return std::nullopt;
    const int64_t row_bytes =
        NumElements(Shape(expected.dims().subspan(axis))) * SizeOf(whole->dtype);
    const int64_t offset =
        plan.parts.empty() ? 0 : plan.parts.back().offset_bytes + plan.parts.back().row_bytes;
    joined += expected[axis];
    if (row_bytes > 0) plan.parts.push_back({static_cast<int>(i), offset, row_bytes});
  }
  if (joined != shape[axis]) return std::nullopt;
  return plan;
}

class JoinKernel final : public Kernel {
 public:
  JoinKernel(JoinPlan plan, bool concat, int threads)
      : plan_(std::move(plan)), concat_(concat), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const int64_t size = plan_.rows * plan_.row_bytes;
    ParallelFor(threads_, plan_.rows, size / 4, 1, [&](int64_t begin, int64_t end) {
      for (const Part& part : plan_.parts) Move(args, part, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  void Move(const KernelArgs& args, const Part& part, int64_t begin, int64_t end) const {
    const int64_t in_whole = begin * plan_.row_bytes + part.offset_bytes;
    const int64_t in_part = begin * part.row_bytes;
    if (concat_) {
      CopyRows(static_cast<std::byte*>(args.outputs[0]) + in_whole, plan_.row_bytes,
               static_cast<const std::byte*>(args.inputs[part.operand]) + in_part, part.row_bytes,
               part.row_bytes, end - begin);
    } else {
      CopyRows(static_cast<std::byte*>(args.outputs[part.operand]) + in_part, part.row_bytes,
               static_cast<const std::byte*>(args.inputs[0]) + in_whole, plan_.row_bytes,
               part.row_bytes, end - begin);
    }
  }

  const JoinPlan plan_;
  const bool concat_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!MakePlan(query).has_value()) return std::nullopt;
  return DenseVariant(query, "copy");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<JoinKernel>(*MakePlan(request.query), request.query.op == "Concat",
                                      request.threads);
}

}  // namespace

KernelFamily JoinFamily() { return {"copy", Match, Prepare}; }

}  // namespace millrace
