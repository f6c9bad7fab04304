// The reference family: an op's own reference kernel over the bytes it is given. Nothing is copied:
// operands are wrapped as tensors. It is slow and may allocate; it is always right, and it is the
// only family for operands whose sizes are known only at run time.
#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/infer.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// A tensor over bytes that someone else keeps alive. An empty tensor may come without an address,
// which would make it an operand that is not there.
Tensor WrapBytes(const TensorType& type, void* data) {
  static std::byte nothing;
  const auto* bytes = static_cast<const std::byte*>(data != nullptr ? data : &nothing);
  return Tensor::Wrap(type, std::shared_ptr<const std::byte>(std::shared_ptr<void>(), bytes));
}

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const OpDef& op, const KernelRequest& request)
      : op_(op),
        query_(request.query),
        true_shapes_(request.true_shapes),
        check_types_(true_shapes_ || !op.traits.host_inputs.empty()),
        inputs_(query_.inputs.size()),
        outputs_(query_.outputs.size()) {}

  absl::Status Run(const KernelArgs& args) override {
    if (WantsNothing()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(WrapInputs(args));
    MILLRACE_RETURN_IF_ERROR(WrapOutputs(args));
    MILLRACE_RETURN_IF_ERROR(op_.reference({query_.attrs, inputs_, outputs_}));
    return true_shapes_ ? GiveOutputs(args) : absl::OkStatus();
  }

 private:
  // Ops take it for granted that somebody reads one of their results.
  bool WantsNothing() const {
    const auto is_omitted = [](const auto& type) { return !type.has_value(); };
    return !op_.traits.has_effects && std::ranges::all_of(query_.outputs, is_omitted);
  }

  absl::Status WrapInputs(const KernelArgs& args) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!HasInput(query_, i)) continue;
      TensorType type = *query_.inputs[i];
      if (true_shapes_) {
        type.shape = *args.input_shapes[i];
        if (!Fits(type, *query_.inputs[i])) return TooLarge("input", i, type, *query_.inputs[i]);
      }
      inputs_[i] = WrapBytes(type, args.inputs[i]);
    }
    return absl::OkStatus();
  }

  // Results whose size the data decide come back as the kernel's own tensors: they are wrapped
  // without bytes. For the others, types are inferred again where they depend on data or on true
  // sizes, so that a result never exceeds the bytes it was given.
  absl::Status WrapOutputs(const KernelArgs& args) {
    std::vector<TensorType> types;
    if (check_types_) {
      NodeQuery actual = query_;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (HasInput(query_, i)) actual.inputs[i] = inputs_[i].type();
      }
      MILLRACE_ASSIGN_OR_RETURN(types, InferOutputs(actual, inputs_));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!HasOutput(query_, i)) continue;
      const TensorType& planned = *query_.outputs[i];
      const TensorType& type = check_types_ ? types[i] : planned;
      if (op_.traits.host_call) {
        outputs_[i] = Tensor::Wrap(type, nullptr);
        continue;
      }
      if (true_shapes_ ? !Fits(type, planned) : type != planned) {
        return TooLarge("output", i, type, planned);
      }
      outputs_[i] = WrapBytes(type, args.outputs[i]);
    }
    return absl::OkStatus();
  }

  // Writes true shapes, and the bytes of results that came back as tensors.
  absl::Status GiveOutputs(const KernelArgs& args) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!HasOutput(query_, i)) continue;
      const TensorType type = outputs_[i].type();
      if (op_.traits.host_call) {
        if (!Fits(type, *query_.outputs[i])) {
          return TooLarge("output", i, type, *query_.outputs[i]);
        }
        if (const int64_t size = ByteSize(type); size > 0) {
          std::memcpy(args.outputs[i], outputs_[i].bytes(), static_cast<size_t>(size));
        }
        outputs_[i] = Tensor();
      }
      *args.output_shapes[i] = type.shape;
    }
    return absl::OkStatus();
  }

  static bool Fits(const TensorType& type, const TensorType& bound) {
    const std::optional<int64_t> size = CheckedByteSize(type);
    return type.dtype == bound.dtype && size.has_value() && *size <= ByteSize(bound);
  }

  absl::Status TooLarge(std::string_view what, size_t i, const TensorType& type,
                        const TensorType& planned) const {
    return BadInputError(StrCat(op_.name, ": ", what, " ", i, " is ", ToString(type),
                                " at run time, but ", ToString(planned), " was planned"));
  }

  const OpDef& op_;
  const NodeQuery query_;
  const bool true_shapes_;
  const bool check_types_;
  std::vector<Tensor> inputs_, outputs_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->reference == nullptr) return std::nullopt;
  return DenseVariant(query, "reference");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const OpDef& op = *FindOp(request.query.op);
  if (op.traits.host_call && !request.true_shapes) {
    return InternalError(StrCat(op.name, " has results of unknown size and runs by HostCall only"));
  }
  return std::make_unique<ReferenceKernel>(op, request);
}

}  // namespace

KernelFamily ReferenceFamily() { return {"reference", Match, Prepare}; }

}  // namespace millrace
