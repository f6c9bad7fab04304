// MaxPool, AveragePool, their gradients and GlobalMaxPool (device/pool.cuh).
#include "graph/strings.h"
#include "ops/cuda/cuda_families.h"
#include "ops/cuda/template_source.h"
#include "ops/pool.h"

namespace millrace {
namespace {

// GlobalMaxPool's window is all of the input.
std::optional<Window> PoolWindowOf(const NodeQuery& query, const Shape& x) {
  if (query.op != "GlobalMaxPool") {
    absl::StatusOr<Window> window = PoolWindow(query.attrs, x);
    return window.ok() ? std::optional(*std::move(window)) : std::nullopt;
  }
  if (x.rank() < 3 || x.rank() > 2 + kMaxSpatial) return std::nullopt;
  Window window;
  window.rank = x.rank() - 2;
  for (int d = 2; d < x.rank(); ++d) {
    const auto at = static_cast<size_t>(kMaxSpatial - x.rank() + d);
    window.in[at] = window.kernel[at] = x[d];
  }
  return window;
}

std::optional<CudaWork> PoolWork(const NodeQuery& query) {
  const std::string& op = query.op;
  const bool max = op == "MaxPool" || op == "GlobalMaxPool", max_grad = op == "grad.MaxPool";
  const bool average_grad = op == "grad.AveragePool";
  if (!max && !max_grad && !average_grad && op != "AveragePool") return std::nullopt;
  const Shape& x = max_grad       ? query.inputs[1]->shape
                   : average_grad ? query.outputs[0]->shape
                                  : query.inputs[0]->shape;
  const std::optional<Window> window = PoolWindowOf(query, x);
  if (!window.has_value()) return std::nullopt;
  const std::string name = FunctionNameOf(op);
  TemplateCall call{.header = "pool.cuh", .name = name};
  call.constants = StrCat("  constexpr WindowShape kWindow = ", WindowSource(*window), ";\n");
  const int64_t channels = x[0] * x[1];
  const bool gives_x = max_grad || average_grad;
  call.blocks = BlocksFor(channels * Volume(gives_x ? window->in : window->out));
  call.more_arguments = StrCat(", ", channels);
  if (max) {
    call.callee = "MaxPool<kWindow>";
    TemplateParam y = Absent(query.inputs[0]->dtype), indices = Absent(DType::kI64);
    y.param.writes = indices.param.writes = true;
    if (HasOutput(query, 0)) y = OutputOf(query, 0);
    if (HasOutput(query, 1)) indices = OutputOf(query, 1);
    call.params = {InputOf(query, 0), y, indices};
    StrAppend(&call.more_arguments,
              query.attrs.Int("storage_order", 0) == 1 ? ", true" : ", false");
  } else if (max_grad) {
    call.callee = "MaxPoolGradient<kWindow>";
    call.params = {InputOf(query, 0), InputOf(query, 1), OutputOf(query, 0)};
  } else {
    call.callee = average_grad ? "AveragePoolGradient<kWindow>" : "AveragePool<kWindow>";
    call.params = {InputOf(query, 0), OutputOf(query, 0)};
    StrAppend(&call.more_arguments,
              query.attrs.Bool("count_include_pad", false) ? ", true" : ", false");
  }
  if (call.blocks > kMaxBlocks) return std::nullopt;
  CudaWork work;
  work.launches.push_back(LaunchOf(call));
  return work;
}

}  // namespace

CudaFamily CudaPoolFamily() { return {"pool", PoolWork}; }

}  // namespace millrace
