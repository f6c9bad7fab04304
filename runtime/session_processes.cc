#include "runtime/session_processes.h"

#include <algorithm>
#include <cstring>

#include "graph/mesh_coordinates.h"
#include "runtime/strided_copy.h"

namespace millrace {

std::vector<int> HoldersOf(const PlanBundle& plan, ValueId value,
                           std::vector<Binding> Program::*bindings,
                           const Communicator& communicator) {
  std::vector<int> holders;
  for (int32_t program = 0; program < static_cast<int32_t>(plan.programs.size()); ++program) {
    const std::vector<Binding>& bound = plan.programs[program].*bindings;
    if (std::ranges::none_of(bound, [&](const Binding& b) { return b.value == value; })) continue;
    for (int64_t device = 0; device < plan.mesh.num_devices(); ++device) {
      holders.push_back(communicator.ProcessOf({program, CoordinatesOf(plan.mesh, device)}));
    }
  }
  return holders;
}

std::string EncodeTensor(const Tensor& tensor) {
  WireWriter writer;
  writer.Put(tensor.dtype());
  writer.Put(static_cast<int32_t>(tensor.shape().rank()));
  for (const int64_t dim : tensor.shape().dims()) writer.Put(dim);
  writer.PutString(
      {reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.size_bytes())});
  return std::move(writer).Take();
}

absl::StatusOr<Tensor> DecodeTensor(std::string_view bytes) {
  WireReader reader(bytes);
  TensorType type;
  type.dtype = reader.Get<DType>();
  const auto rank = reader.Get<int32_t>();
  for (int32_t i = 0; i < rank && reader.ok(); ++i) type.shape.push_back(reader.Get<int64_t>());
  const std::string data = reader.GetString();
  if (!reader.ok()) return DistributedError("a tensor that is cut short");
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  if (static_cast<size_t>(tensor.size_bytes()) != data.size()) {
    return DistributedError("a tensor of another size than its type's");
  }
  if (!data.empty()) std::memcpy(tensor.mutable_bytes(), data.data(), data.size());
  return tensor;
}

void PutPart(int64_t offset_bytes, const Tensor& part, WireWriter& writer) {
  writer.Put(offset_bytes);
  writer.PutString(
      {reinterpret_cast<const char*>(part.bytes()), static_cast<size_t>(part.size_bytes())});
}

absl::Status TakeParts(std::string_view parts, const TensorType& type,
                       std::span<const int64_t> strides, Tensor& whole) {
  WireReader reader(parts);
  while (!reader.at_end()) {
    const auto offset_bytes = reader.Get<int64_t>();
    std::string part = reader.GetString();
    int64_t last = 0;  // element of the whole that the part reaches
    for (int d = 0; d < type.shape.rank(); ++d) last += (type.shape[d] - 1) * strides[d];
    const int64_t end_bytes = offset_bytes + (last + 1) * SizeOf(type.dtype);
    const bool fits = static_cast<int64_t>(part.size()) == ByteSize(type) && offset_bytes >= 0 &&
                      (part.empty() || end_bytes <= whole.size_bytes());
    if (!reader.ok() || !fits) return DistributedError("a part of a value that does not fit");
    const StridedCopy copy =
        PlanStridedCopy(type, {.data = whole.mutable_bytes() + offset_bytes, .strides = strides},
                        {.data = reinterpret_cast<std::byte*>(part.data())});
    MILLRACE_RETURN_IF_ERROR(ForEachRegion(copy, [](const CopyRegion& region) {
      CopyOnHost(region);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

}  // namespace millrace
