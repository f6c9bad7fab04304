#include "ops/cpu/onednn_primitive.h"

#include <algorithm>
#include <cstring>

#include "graph/channels_last.h"
#include "graph/strings.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 31;
constexpr double kTeamMultiplyAdds = 1 << 19;

int64_t Padded(int64_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

int64_t PaddedSize(const dnnl::memory::desc& desc) {
  return Padded(static_cast<int64_t>(desc.get_size()));
}

dnnl::memory Unplaced(const dnnl::memory::desc& desc) {
  return {desc, CpuEngine(), DNNL_MEMORY_NONE};
}

absl::Status Place(const dnnl::memory& memory, void* data) {
  return ToStatus(dnnl_memory_set_data_handle(memory.get(), data), "placing an operand");
}

}  // namespace

const dnnl::engine& CpuEngine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::string OneDnnVariant() { return StrCat("onednn:", OneDnnIsa()); }

absl::Status ToStatus(dnnl_status_t status, std::string_view what) {
  if (status == dnnl_success) return absl::OkStatus();
  return DeviceError(StrCat("oneDNN: ", what, " failed with status ", static_cast<int>(status)));
}

bool AllSized(const std::vector<std::optional<TensorType>>& types) {
  return std::all_of(types.begin(), types.end(), [](const auto& type) {
    if (!type.has_value()) return true;
    const int64_t count = NumElements(type->shape);
    return count > 0 && count < kMaxElements;
  });
}

int TeamFor(double multiply_adds, int threads) {
  return multiply_adds < kTeamMultiplyAdds ? 1 : threads;
}

dnnl::memory::desc PlainDesc(const DnnlDims& dims) {
  DnnlDims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::memory::desc AnyDesc(const DnnlDims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::memory::desc ChannelsLastDesc(const DnnlDims& dims) {
  const Shape shape(dims);
  return {dims, dnnl::memory::data_type::f32, ChannelsLastStrides(shape)};
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlDims ToDnnlDims(const Shape& shape) { return DnnlDims(shape.begin(), shape.end()); }

int64_t PrimitiveOperands::scratch_bytes() const {
  int64_t size = PaddedSize(scratchpad);
  for (const PrimitiveOperand& operand : operands) {
    if (operand.reordered()) size += PaddedSize(operand.wanted);
  }
  return size;
}

PrimitiveKernel::PrimitiveKernel(const dnnl::primitive& primitive,
                                 const PrimitiveOperands& operands, int threads)
    : threads_(threads), stream_(CpuEngine()) {
  Call main = {.primitive = primitive};
  std::vector<Call> after;
  for (const PrimitiveOperand& operand : operands.operands) {
    const dnnl::memory lying = Unplaced(operand.given);
    operands_.push_back(
        {lying, operand.is_output, operand.index, operand.starts_from, operand.given.get_size()});
    if (!operand.reordered()) {
      main.Add(operand.arg, lying);
      continue;
    }
    const dnnl::memory other = InScratch(operand.wanted);
    main.Add(operand.arg, other);
    if (operand.starts_from >= 0) {  // what it starts from was put where it lies
      Call fetch = {.primitive = dnnl::reorder(lying, other)};
      fetch.Add(DNNL_ARG_FROM, lying);
      fetch.Add(DNNL_ARG_TO, other);
      calls_.push_back(fetch);
    }
    const dnnl::memory &from = operand.is_output ? other : lying,
                       &to = operand.is_output ? lying : other;
    Call reorder = {.primitive = dnnl::reorder(from, to)};
    reorder.Add(DNNL_ARG_FROM, from);
    reorder.Add(DNNL_ARG_TO, to);
    (operand.is_output ? after : calls_).push_back(reorder);
  }
  main.Add(DNNL_ARG_SCRATCHPAD, InScratch(operands.scratchpad));
  calls_.push_back(main);
  calls_.insert(calls_.end(), after.begin(), after.end());
}

dnnl::memory PrimitiveKernel::InScratch(const dnnl::memory::desc& desc) {
  dnnl::memory memory = Unplaced(desc);
  in_scratch_.emplace_back(memory, scratch_bytes_);
  scratch_bytes_ += PaddedSize(desc);
  return memory;
}

absl::Status PrimitiveKernel::Run(const KernelArgs& args) {
  SetTeamSize(threads_);
  for (const PlacedOperand& operand : operands_) {
    void* const data = operand.is_output ? args.outputs[operand.index]
                                         : const_cast<void*>(args.inputs[operand.index]);
    MILLRACE_RETURN_IF_ERROR(Place(operand.memory, data));
    if (operand.starts_from < 0) continue;
    const void* start = args.inputs[operand.starts_from];
    if (start != data) std::memcpy(data, start, operand.size_bytes);
  }
  if (args.scratch != scratch_) {
    for (const auto& [memory, offset] : in_scratch_) {
      MILLRACE_RETURN_IF_ERROR(Place(memory, static_cast<std::byte*>(args.scratch) + offset));
    }
    scratch_ = args.scratch;
  }
  for (const Call& call : calls_) {
    MILLRACE_RETURN_IF_ERROR(
        ToStatus(dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                                        static_cast<int>(call.args.size()), call.args.data()),
                 "running a primitive"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
