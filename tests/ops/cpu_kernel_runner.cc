#include "tests/ops/cpu_kernel_runner.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph/channels_last.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/prepack.h"
#include "runtime/strided_copy.h"

namespace millrace {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr int kGarbage = 0xcb;  // as f32: about -2.7e7

// Bytes with guards around them, at an odd multiple of 64 so that no kernel gets by on luck.
class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t size) : bytes_(static_cast<size_t>(size) + 4 * kGuardBytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    start_ = (address / kGuardBytes + 2) * kGuardBytes - address;
    size_ = static_cast<size_t>(size);
    std::memset(bytes_.data(), kGarbage, bytes_.size());
  }
  std::byte* data() { return bytes_.data() + start_; }
  bool GuardsIntact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= start_ && i < start_ + size_;
      if (!inside && bytes_[i] != std::byte{kGarbage}) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t start_ = 0, size_ = 0;
};

// In which layout operand `i` lies that a variant wants in `layouts`.
Layout LayoutOf(const std::vector<Layout>& layouts, size_t i,
                const std::optional<TensorType>& type) {
  const Layout layout = i < layouts.size() ? layouts[i] : Layout::kStrided;
  const bool alike = layout == Layout::kNHWC && type.has_value() && !HasChannelsLast(type->shape);
  return alike ? Layout::kStrided : layout;
}

// Between a tensor's bytes and those of an operand in `layout`, strided or channels-last.
void CopyLaidOut(const TensorType& type, Layout layout, std::byte* operand, std::byte* tensor,
                 bool to_tensor) {
  if (NumElements(type.shape) == 0) return;
  const std::vector<int64_t> strides =
      layout == Layout::kNHWC ? ChannelsLastStrides(type.shape) : std::vector<int64_t>();
  const StridedPlace laid_out{.data = operand, .strides = strides}, plain{.data = tensor};
  const StridedCopy copy =
      to_tensor ? PlanStridedCopy(type, plain, laid_out) : PlanStridedCopy(type, laid_out, plain);
  (void)ForEachRegion(copy, [](const CopyRegion& region) {
    CopyOnHost(region);
    return absl::OkStatus();
  });
}

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

}  // namespace

KernelCase MakeCase(std::string op, Attrs attrs, std::vector<Tensor> inputs, int outputs) {
  KernelCase c;
  c.query.op = std::move(op);
  c.query.attrs = std::move(attrs);
  for (const Tensor& t : inputs) {
    c.query.inputs.push_back(t.has_data() ? std::optional(t.type()) : std::nullopt);
  }
  c.query.outputs.assign(outputs, TensorType());
  for (size_t i = 0; i < inputs.size(); ++i) {  // as QueryFor knows constants
    const Tensor& t = inputs[i];
    if (!t.has_data() || t.dtype() != DType::kI64 || t.shape().rank() > 1) continue;
    std::vector<int64_t>& elements = c.query.known[static_cast<int>(i)];
    for (int64_t e = 0; e < t.num_elements(); ++e) elements.push_back(t.AsInt64(e));
  }
  const auto types = InferOutputs(c.query, inputs);
  if (!types.ok()) Die(StrCat(c.query.op, ": ", types.status().ToString()));
  for (int i = 0; i < outputs; ++i) c.query.outputs[i] = (*types)[i];
  c.inputs = std::move(inputs);
  return c;
}

Attrs MakeAttrs(std::initializer_list<std::pair<std::string_view, AttrValue>> attrs) {
  Attrs made;
  for (const auto& [name, value] : attrs) made.Set(name, value);
  return made;
}

std::string Describe(const KernelCase& c) {
  std::string text = StrCat(c.query.op, "(");
  for (const Tensor& t : c.inputs) {
    StrAppend(&text, text.back() == '(' ? "" : ", ", t.has_data() ? ToString(t.type()) : "-");
  }
  return StrCat(text, ")");
}

KernelRequest RequestFor(const KernelCase& c, const KernelVariant& variant, int threads) {
  KernelRequest request;
  request.query = c.query;
  request.variant = variant.name;
  for (size_t i = 0; i < c.query.inputs.size(); ++i) {
    request.inputs.push_back({.layout = LayoutOf(variant.in_layouts, i, c.query.inputs[i]),
                              .strides = {},
                              .size_bytes = variant.packed_bytes});
  }
  for (size_t k = 0; k < c.query.outputs.size(); ++k) {
    request.outputs.push_back({.layout = LayoutOf(variant.out_layouts, k, c.query.outputs[k]),
                               .strides = {},
                               .size_bytes = variant.packed_bytes});
  }
  request.threads = threads;
  request.scratch_bytes = variant.scratch_bytes;
  return request;
}

KernelVariant OfferedVariant(const KernelCase& c, std::string_view name) {
  for (const KernelVariant& variant : CpuTarget().Variants(c.query)) {
    if (variant.name == name) return variant;
  }
  Die(StrCat("no variant '", name, "' of ", Describe(c)));
}

namespace {

int64_t ResultBytes(const KernelCase& c, const KernelVariant& variant, size_t i) {
  return variant.out_layouts[i] == Layout::kPacked ? variant.packed_bytes
                                                   : ByteSize(*c.query.outputs[i]);
}

// Input `i`, as the variant's own fused.Prepack packs it.
absl::StatusOr<Tensor> Packed(KernelLibrary& library, const KernelCase& c,
                              const KernelVariant& variant, int i) {
  const KernelCase packing =
      MakeCase(std::string(kPrepack), PrepackAttrs(c.query, i), {c.inputs[i]}, 1);
  MILLRACE_ASSIGN_OR_RETURN(
      std::vector<Tensor> results,
      RunVariant(library, packing, OfferedVariant(packing, variant.name), RunOptions()));
  return results[0];
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunVariant(KernelLibrary& library, const KernelCase& c,
                                               const KernelVariant& variant,
                                               const RunOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                            library.Prepare(RequestFor(c, variant, options.threads)));
  std::vector<GuardedBytes> buffers;
  std::vector<void*> inputs, outputs;
  buffers.reserve(c.inputs.size() + c.query.outputs.size() + 1);
  std::vector<Tensor> packed;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor t = c.inputs[i];
    inputs.push_back(nullptr);
    if (!t.has_data()) continue;
    const Layout layout = LayoutOf(variant.in_layouts, i, t.type());
    if (layout == Layout::kPacked) {
      MILLRACE_ASSIGN_OR_RETURN(t, Packed(library, c, variant, static_cast<int>(i)));
    }
    GuardedBytes& bytes = buffers.emplace_back(t.size_bytes());
    inputs.back() = bytes.data();
    CopyLaidOut(t.type(), layout, bytes.data(), t.mutable_bytes(), /*to_tensor=*/false);
  }
  for (size_t i = 0; i < c.query.outputs.size(); ++i) {
    const bool in_place = static_cast<int>(i) == options.in_place.output;
    outputs.push_back(in_place ? inputs[options.in_place.input]
                               : buffers.emplace_back(ResultBytes(c, variant, i)).data());
  }
  GuardedBytes& scratch = buffers.emplace_back(variant.scratch_bytes);
  KernelArgs args;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.scratch = scratch.data();
  MILLRACE_RETURN_IF_ERROR(kernel->Run(args));
  // A second run must not be disturbed by what the first one left behind.
  if (options.in_place.output < 0) MILLRACE_RETURN_IF_ERROR(kernel->Run(args));
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Layout layout = LayoutOf(variant.out_layouts, i, c.query.outputs[i]);
    const TensorType type = layout == Layout::kPacked
                                ? TensorType{DType::kU8, {variant.packed_bytes}}
                                : *c.query.outputs[i];
    Tensor& t = results.emplace_back(Tensor::Zeros(type));
    CopyLaidOut(type, layout, static_cast<std::byte*>(outputs[i]), t.mutable_bytes(),
                /*to_tensor=*/true);
  }
  for (const GuardedBytes& bytes : buffers) {
    if (!bytes.GuardsIntact()) return InternalError("wrote outside of its operands");
  }
  return results;
}

Tensor RandomTensor(std::mt19937& random, DType dtype, const Shape& shape, double limit) {
  Tensor t = Tensor::Zeros({dtype, shape});
  std::uniform_real_distribution<double> uniform(IsSigned(dtype) ? -limit : 0, limit);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double value = uniform(random);
    t.Set(i, IsFloat(dtype)          ? value
             : dtype == DType::kBool ? value > limit / 2
                                     : std::round(value));
  }
  return t;
}

}  // namespace millrace
