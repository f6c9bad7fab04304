// One node of any op, with operands and attributes of any kind, hostile ones among them: inference
// gives types or an error, what it lets through has work, sharding rules and kernels that hold. The
// bytes are choices, not a format; every reference kernel and every variant of the cpu backend runs
// on what is small.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/fuzz/choices.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

constexpr int64_t kSmallBytes = 4096;
constexpr double kSmallWork = 1e6;
constexpr int kMaxOperands = 8;

class NodeMaker {
 public:
  NodeMaker(const uint8_t* data, size_t size) : choose_(data, size) {}

  // Fills `c` but for the types of its outputs; operands without data in `constants` are variable.
  void Make(KernelCase& c, std::vector<Tensor>& constants) {
    op_ = &choose_.Of(AllOps());
    c.query.op = op_->name;
    for (const AttrSpec& spec : op_->attrs) {
      if (!choose_.OneIn(4)) c.query.attrs.Set(spec.name, Attribute(spec));
    }
    const int inputs = Count(op_->inputs);
    for (int i = 0; i < inputs; ++i) {
      const TensorType type{AnyDType(OperandAt(i)), AnyShape()};
      const bool omitted = choose_.OneIn(16), constant = choose_.OneIn(2);
      const std::optional<int64_t> size = CheckedByteSize(type);
      const bool filled = !omitted && size.has_value() && *size <= kSmallBytes;
      c.query.inputs.push_back(omitted ? std::nullopt : std::optional(type));
      c.inputs.push_back(filled ? Filled(type) : Tensor());
      constants.push_back(constant ? c.inputs.back() : Tensor());
    }
    c.query.outputs.assign(Count(op_->outputs), TensorType{});
    if (choose_.OneIn(16) && !c.query.outputs.empty()) c.query.outputs[0] = std::nullopt;
  }

 private:
  const OperandSpec* OperandAt(int i) const {
    if (op_->inputs.empty()) return nullptr;
    return &op_->inputs[std::min<size_t>(i, op_->inputs.size() - 1)];
  }

  // Mostly as many as there are; sometimes one more or fewer.
  int Count(const std::vector<OperandSpec>& specs) {
    int count = static_cast<int>(specs.size());
    if (count > 0 && specs.back().variadic) count += choose_.Below(4);
    const int slip = choose_.Below(16);
    if (slip == 15) ++count;
    if (slip > 10 && slip < 15 && count > 0) --count;
    return std::min(count, kMaxOperands);
  }

  // Small numbers mostly, and those at which arithmetic breaks.
  int64_t AnyInt() {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr int64_t kEdges[] = {kMax, -kMax - 1, kMax / 2,  int64_t{1} << 32, int64_t{1} << 31,
                                  -1,   1 << 16,   INT32_MAX, INT32_MIN,        kMaxBytes};
    const int choice = choose_.Below(16);
    if (choice == 15) return choose_.Of(kEdges);
    if (choice == 14) return choose_.Raw<int64_t>();
    return choose_.Below(9) - 3;
  }

  double AnyFloat() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    constexpr double kEdges[] = {0, -0.0, 1, -1, 1e-45, 1e300, kInfinity, -kInfinity, kNaN};
    return choose_.OneIn(4) ? choose_.Raw<double>() : choose_.Of(kEdges);
  }

  template <typename T, typename F>
  std::vector<T> AnyList(F element) {
    std::vector<T> list(choose_.Below(10));
    for (T& item : list) item = element();
    return list;
  }

  std::string AnyString(const AttrSpec& spec) {
    if (spec.choices.empty() || choose_.OneIn(16)) return choose_.Text(8);
    return choose_.Of(std::span(spec.choices));
  }

  AttrValue Attribute(const AttrSpec& spec) {
    switch (choose_.OneIn(32) ? static_cast<AttrKind>(choose_.Below(7)) : spec.kind) {
      case AttrKind::kBool:
        return choose_.OneIn(2);
      case AttrKind::kInt:
        return AnyInt();
      case AttrKind::kFloat:
        return AnyFloat();
      case AttrKind::kString:
        return AnyString(spec);
      case AttrKind::kInts:
        return AnyList<int64_t>([&] { return AnyInt(); });
      case AttrKind::kFloats:
        return AnyList<double>([&] { return AnyFloat(); });
      case AttrKind::kStrings:
        return AnyList<std::string>([&] { return AnyString(spec); });
    }
    return false;
  }

  // Operands of one letter must have one dtype: the first allowed one mostly fits.
  DType AnyDType(const OperandSpec* spec) {
    const int choice = choose_.Below(16);
    if (choice == 15) return static_cast<DType>(choose_.Below(kNumDTypes));
    if (spec == nullptr || spec->dtypes.empty()) return DType::kF32;
    return choice > 11 ? choose_.Of(std::span<const DType>(spec->dtypes)) : spec->dtypes[0];
  }

  Shape AnyShape() {
    Shape shape;
    const int choice = choose_.Below(32);
    const int rank = choice < 30 ? choice % 6 : choice - 23;
    for (int d = 0; d < rank; ++d) {
      const int size = choose_.Below(64);
      shape.push_back(size == 63 ? std::max<int64_t>(0, AnyInt()) : size == 62 ? 0 : size % 5 + 1);
    }
    return shape;
  }

  Tensor Filled(const TensorType& type) {
    Tensor tensor = Tensor::Zeros(type);
    const int64_t elements = std::min<int64_t>(tensor.num_elements(), 16);
    for (int64_t i = 0; i < elements; ++i) {
      const double value = IsFloat(type.dtype) ? AnyFloat() : static_cast<double>(AnyInt());
      tensor.Set(i, type.dtype == DType::kBool ? value > 0 : value);
    }
    return tensor;
  }

  Choices choose_;
  const OpDef* op_ = nullptr;
};

// Whether all operands have data and all results are small.
bool IsSmall(const KernelCase& c) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.query.inputs[i].has_value() && !c.inputs[i].has_data()) return false;
  }
  for (const auto& type : c.query.outputs) {
    if (type.has_value() && ByteSize(*type) > kSmallBytes) return false;
  }
  return WorkOf(c.query).flops <= kSmallWork;
}

void RunAllVariants(const KernelCase& c) {
  static const CpuTarget target;
  static KernelLibrary& library = *CreateCpuKernelLibrary().release();
  for (const KernelVariant& variant : target.Variants(c.query)) {
    if (variant.scratch_bytes > (1 << 20)) continue;
    const absl::StatusOr<std::vector<Tensor>> result = RunVariant(library, c, variant);
    // An index out of range is an error; writing elsewhere is a bug.
    MILLRACE_CHECK(result.ok() || !absl::IsInternal(result.status()));
  }
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  KernelCase c;
  std::vector<Tensor> constants;
  NodeMaker(data, size).Make(c, constants);
  const auto types = InferOutputs(c.query, constants);
  if (!types.ok()) return 0;
  const bool bounded = FindOp(c.query.op)->traits.host_call;
  for (size_t i = 0; i < types->size(); ++i) {
    if (c.query.outputs[i].has_value()) c.query.outputs[i] = (*types)[i];
  }
  MILLRACE_CHECK(WorkOf(c.query).bytes >= 0);
  for (const ShardingRule& rule : ShardingRulesOf(c.query)) {
    MILLRACE_CHECK(rule.inputs.size() == c.query.inputs.size());
    MILLRACE_CHECK(rule.outputs.size() == c.query.outputs.size());
  }
  if (!bounded && IsSmall(c)) RunAllVariants(c);
  return 0;
}
