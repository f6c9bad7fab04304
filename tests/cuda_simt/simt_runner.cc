#include "tests/cuda_simt/simt_runner.h"

#include <cstring>

#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/signature.h"

namespace millrace {
namespace {

constexpr size_t kGuard = 256;
constexpr int kFiller = 0xcb;  // as f32: about -2.7e7

// Bytes with guards around them.
class GuardedOperand {
 public:
  GuardedOperand(int64_t size, int64_t misaligned)
      : size_(static_cast<size_t>(size)), bytes_(size_ + 3 * kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    start_ = (address / 64 + 2) * 64 - address + static_cast<size_t>(misaligned);
    std::memset(bytes_.data(), kFiller, bytes_.size());
  }
  std::byte* data() { return bytes_.data() + start_; }
  bool GuardsIntact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= start_ && i < start_ + size_;
      if (!inside && bytes_[i] != std::byte{kFiller}) return false;
    }
    return true;
  }

 private:
  size_t size_, start_ = 0;
  std::vector<std::byte> bytes_;
};

// The operands of a node at addresses of their own.
class OperandSet {
 public:
  OperandSet(const NodeQuery& query, const CudaWork& work, std::span<const Tensor> inputs,
             const SimtRunOptions& options)
      : in_place_(options.in_place) {
    for (const Tensor& t : inputs) {
      inputs_.emplace_back(t.has_data() ? t.size_bytes() : 0, options.misaligned_bytes);
      if (t.has_data() && t.size_bytes() > 0) {
        std::memcpy(inputs_.back().data(), t.bytes(), static_cast<size_t>(t.size_bytes()));
      }
    }
    for (const auto& type : query.outputs) {
      outputs_.emplace_back(type.has_value() ? ByteSize(*type) : 0, options.misaligned_bytes);
    }
    scratch_.emplace_back(work.scratch_bytes, 0);
  }

  std::byte* InputAt(size_t i) { return inputs_[i].data(); }
  std::byte* OutputAt(size_t k) {
    const bool on_input = in_place_.output == static_cast<int>(k);
    return on_input ? InputAt(static_cast<size_t>(in_place_.input)) : outputs_[k].data();
  }
  void* AddressOf(const CudaParam& param) {
    const auto index = static_cast<size_t>(param.index);
    if (param.kind == CudaParam::Kind::kInput) return InputAt(index);
    if (param.kind == CudaParam::Kind::kOutput) return OutputAt(index);
    return scratch_[0].data() + param.offset_bytes;
  }
  bool GuardsIntact() const {
    for (const auto* set : {&inputs_, &outputs_, &scratch_}) {
      for (const GuardedOperand& operand : *set) {
        if (!operand.GuardsIntact()) return false;
      }
    }
    return true;
  }

 private:
  const InPlacePair in_place_;
  std::vector<GuardedOperand> inputs_, outputs_, scratch_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunSimt(const SimtModule& module, const NodeQuery& query,
                                            const CudaWork& work, std::span<const Tensor> inputs,
                                            const SimtRunOptions& options) {
  OperandSet operands(query, work, inputs, options);
  for (const CudaLaunch& launch : work.launches) {
    std::vector<void*> params;
    for (const CudaParam& param : launch.params) params.push_back(operands.AddressOf(param));
    MILLRACE_RETURN_IF_ERROR(module.Run(launch, params, options.order));
  }
  if (!operands.GuardsIntact()) return InternalError("a kernel wrote outside of its operands");
  std::vector<Tensor> results;
  for (size_t k = 0; k < query.outputs.size(); ++k) {
    Tensor& result = results.emplace_back();
    if (!query.outputs[k].has_value()) continue;
    result = Tensor::Zeros(*query.outputs[k]);
    if (result.size_bytes() == 0) continue;
    std::memcpy(result.mutable_bytes(), operands.OutputAt(k),
                static_cast<size_t>(result.size_bytes()));
  }
  return results;
}

absl::StatusOr<std::vector<Tensor>> ReferenceOf(const NodeQuery& query,
                                                std::span<const Tensor> inputs) {
  const OpDef& op = *FindOp(query.op);
  Attrs storage;
  const Attrs& attrs = WithDefaults(op, query.attrs, storage);
  std::vector<Tensor> outputs;
  for (const auto& type : query.outputs) {
    outputs.push_back(type.has_value() ? Tensor::Zeros(*type) : Tensor());
  }
  MILLRACE_RETURN_IF_ERROR(op.reference({attrs, inputs, outputs}));
  return outputs;
}

}  // namespace millrace
