// Dropout, RandomUniform, RandomNormal, their Like forms, and Bernoulli (device/random.cuh).
#include "graph/strings.h"
#include "ops/cuda/cuda_families.h"
#include "ops/cuda/scalar_source.h"
#include "ops/cuda/template_source.h"

namespace millrace {
namespace {

std::string SeedSource(const NodeQuery& query) {
  return StrCat(static_cast<uint64_t>(query.attrs.Int("seed", 0)), "ull");
}

TemplateParam InputOrAbsent(const NodeQuery& query, size_t i, DType dtype) {
  return HasInput(query, i) ? InputOf(query, i) : Absent(dtype);
}

TemplateParam OutputOrAbsent(const NodeQuery& query, size_t k, DType dtype) {
  if (HasOutput(query, k)) return OutputOf(query, k);
  TemplateParam absent = Absent(dtype);
  absent.param.writes = true;
  return absent;
}

TemplateCall DropoutCall(const NodeQuery& query) {
  const TensorType& x = *query.inputs[0];
  TemplateCall call{.header = "random.cuh", .name = "dropout"};
  call.callee = "Dropout";
  call.params = {InputOf(query, 0),
                 InputOrAbsent(query, 1, DType::kF32),
                 InputOrAbsent(query, 2, DType::kBool),
                 InputOrAbsent(query, 3, DType::kI64),
                 OutputOrAbsent(query, 0, x.dtype),
                 OutputOrAbsent(query, 1, DType::kBool)};
  call.more_arguments = StrCat(", ", NumElements(x.shape), ", ", SeedSource(query));
  call.blocks = BlocksFor((NumElements(x.shape) + 3) / 4);
  return call;
}

TemplateCall FillCall(const NodeQuery& query, bool normal, size_t step_operand) {
  const double offset = query.attrs.Float(normal ? "mean" : "low", 0);
  const double scale = normal ? query.attrs.Float("scale", 1)
                              : query.attrs.Float("high", 1) - query.attrs.Float("low", 0);
  const int64_t count = NumElements(query.outputs[0]->shape);
  TemplateCall call{.header = "random.cuh", .name = normal ? "random_normal" : "random_uniform"};
  call.callee = normal ? "Fill<true>" : "Fill<false>";
  call.params = {InputOrAbsent(query, step_operand, DType::kI64), OutputOf(query, 0)};
  call.more_arguments =
      StrCat(", ", count, ", ", SeedSource(query), ", ", ConstantSource(DType::kF64, offset), ", ",
             ConstantSource(DType::kF64, scale));
  call.blocks = BlocksFor((count + 3) / 4);
  return call;
}

TemplateCall BernoulliCall(const NodeQuery& query) {
  const int64_t count = NumElements(query.outputs[0]->shape);
  TemplateCall call{.header = "random.cuh", .name = "bernoulli"};
  call.callee = "Bernoulli";
  call.params = {InputOf(query, 0), InputOrAbsent(query, 1, DType::kI64), OutputOf(query, 0)};
  call.more_arguments = StrCat(", ", count, ", ", SeedSource(query));
  call.blocks = BlocksFor((count + 3) / 4);
  return call;
}

std::optional<TemplateCall> RandomCall(const NodeQuery& query) {
  const std::string& op = query.op;
  // Of a part of the data the reference knows which elements of the whole it has; this does not.
  if (op == "Dropout" && !HasInput(query, 4)) return DropoutCall(query);
  if (op == "RandomUniform") return FillCall(query, false, 0);
  if (op == "RandomUniformLike") return FillCall(query, false, 1);
  if (op == "RandomNormal") return FillCall(query, true, 0);
  if (op == "RandomNormalLike") return FillCall(query, true, 1);
  if (op == "Bernoulli") return BernoulliCall(query);
  return std::nullopt;
}

std::optional<CudaWork> RandomWork(const NodeQuery& query) {
  const std::optional<TemplateCall> call = RandomCall(query);
  if (!call.has_value() || call->blocks > kMaxBlocks) return std::nullopt;
  CudaWork work;
  work.launches.push_back(LaunchOf(*call));
  return work;
}

}  // namespace

CudaFamily CudaRandomFamily() { return {"random", RandomWork}; }

}  // namespace millrace
