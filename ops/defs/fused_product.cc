// fused.Conv and fused.MatMul (ops/fused_product.h). The pass fuse-epilogues makes them.
#include "ops/fused_product.h"

#include "graph/strings.h"
#include "ops/broadcast.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/fused_reference.h"
#include "ops/infer.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

constexpr int kMaxFusedOperands = 8;

// The query of a node, its result of any type.
NodeQuery QueryOfInputs(std::string_view op, const Attrs& attrs,
                        std::vector<std::optional<TensorType>> inputs) {
  NodeQuery query;
  query.op = op;
  query.attrs = attrs;
  query.inputs = std::move(inputs);
  query.outputs = {TensorType()};
  return query;
}

absl::Status InferProduct(std::string_view op, InferContext& c) {
  std::vector<std::optional<TensorType>> inputs(c.num_inputs());
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.has_input(i)) inputs[i] = c.input(i);
  }
  MILLRACE_RETURN_IF_ERROR(ParseFusedProgram(c.attrs().String(kEpilogue, "")).status());
  std::optional<FusedProduct> product = FusedProductOf(QueryOfInputs(op, c.attrs(), inputs));
  if (!product.has_value() || product->epilogue.outputs.size() != 1) {
    return BadInputError("the epilogue must have an operand and one output, and all its inputs");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorType> plain, InferOutputs(product->plain, {}));
  const FusedProgram& epilogue = product->epilogue;
  Shape space;
  for (const IndexDim& dim : epilogue.dims) {
    if (dim.role == DimRole::kReduce) return BadInputError("an epilogue does not reduce");
    if (space.rank() == kMaxRank) return BadInputError("the epilogue has too many dims");
    space.push_back(dim.size);
  }
  if (space != plain[0].shape) {
    return BadInputError(StrCat("the epilogue is over ", ToString(space), ", but the product is ",
                                ToString(plain[0])));
  }
  std::vector<TensorType> operands = {plain[0]};
  operands.insert(operands.end(), product->operands.begin(), product->operands.end());
  const TensorType result{epilogue.outputs[0].dtype, plain[0].shape};
  MILLRACE_RETURN_IF_ERROR(CheckFusedOperands(epilogue, operands, std::span(&result, 1)));
  // Kernels go by shapes: every operand is read as broadcasting reads it.
  FusedProgram plainly = ProgramOver(space);
  for (const TensorType& type : operands) {
    if (NumElements(type.shape) != 1) {
      MILLRACE_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(type.shape, space));
      if (both != space) return BadInputError("an operand of the epilogue is not broadcast");
    }
    LoadOperand(plainly, type, space);
  }
  StoreOutput(plainly, ScalarTerm{&plainly, 0, result.dtype});
  const auto same_place = [&](const auto& a, const auto& b) {
    for (int d = 0; d < space.rank(); ++d) {
      if (space[d] > 1 && a.strides[d] != b.strides[d]) return false;
    }
    return a.offset == b.offset;
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    if (same_place(epilogue.operands[i], plainly.operands[i])) continue;
    return BadInputError(
        StrCat("operand @", i, " of the epilogue must be dense, broadcast to ", ToString(space)));
  }
  if (!same_place(epilogue.outputs[0], plainly.outputs[0])) {
    return BadInputError("the epilogue's output must be dense");
  }
  c.set_output(0, result);
  return absl::OkStatus();
}

absl::Status ReferenceProduct(std::string_view op, const ReferenceContext& c) {
  std::vector<std::optional<TensorType>> types;
  for (const Tensor& input : c.inputs) {
    types.push_back(input.has_data() ? std::optional(input.type()) : std::nullopt);
  }
  NodeQuery query = QueryOfInputs(op, c.attrs, std::move(types));
  query.outputs = {c.outputs[0].type()};
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return InternalError("no fused product");
  std::vector<Tensor> operands(1);
  operands[0] = Tensor::Zeros(*product->plain.outputs[0]);
  const size_t plain_inputs = product->plain.inputs.size();
  MILLRACE_RETURN_IF_ERROR(
      FindOp(product->plain.op)
          ->reference({product->plain.attrs, c.inputs.first(plain_inputs), operands}));
  for (const Tensor& operand : c.inputs.subspan(plain_inputs)) operands.push_back(operand);
  return EvaluateFusedProgram(product->epilogue, operands, c.outputs);
}

Work ProductWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const std::optional<FusedProduct> product = FusedProductOf(query);
  if (!product.has_value()) return work;
  int64_t steps = 0;
  for (const ScalarInstruction& instruction : product->epilogue.instructions) {
    steps += Arity(instruction.op) > 0 ? 1 : 0;
  }
  work.flops = WorkOf(product->plain).flops +
               static_cast<double>(steps * NumElements(query.outputs[0]->shape));
  return work;
}

AttrSpec EpilogueAttr() {
  return {.name = std::string(kEpilogue),
          .kind = AttrKind::kString,
          .required = true,
          .doc = "what becomes of each element of the product, as a fused program"};
}

// The result may lie on any operand of the epilogue, which is read where it is written.
std::vector<InPlacePair> OverOperands(int first) {
  std::vector<InPlacePair> pairs;
  for (int i = 0; i < kMaxFusedOperands; ++i) pairs.push_back({0, first + i});
  return pairs;
}

OperandSpec FurtherOperands() {
  return {.name = "operands",
          .optional = true,
          .variadic = true,
          .doc = "of the epilogue, from its operand @1 on"};
}

}  // namespace

OpDef FusedConvOp() {
  OpDef op = {
      .name = "fused.Conv",
      .doc = "Conv, and a program over its result",
      .inputs =
          {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"},
           {.name = "W", .dtypes = FloatTypes(), .same_as = "T", .doc = "[M,C/group,kernel...]"},
           {.name = "B", .dtypes = FloatTypes(), .optional = true, .same_as = "T", .doc = "[M]"},
           FurtherOperands()},
      .outputs = {{.name = "Y", .doc = "[N,M,spatial...]"}},
      .attrs = ConvAttrs({.name = "kernel_shape",
                          .kind = AttrKind::kInts,
                          .doc = "if given, the spatial dims of W"}),
      .traits = {.in_place = OverOperands(3)},
      .fusion = FusionClass::kContraction,
      .infer = [](InferContext& c) { return InferProduct("fused.Conv", c); },
      .reference = [](const ReferenceContext& c) { return ReferenceProduct("fused.Conv", c); },
      .work = ProductWork};
  op.attrs.push_back(EpilogueAttr());
  return op;
}

OpDef FusedMatMulOp() {
  const auto flag = [](std::string name, std::string doc) {
    return AttrSpec{.name = std::move(name),
                    .kind = AttrKind::kBool,
                    .default_value = false,
                    .doc = std::move(doc)};
  };
  return {
      .name = "fused.MatMul",
      .doc = "MatMul, or a Gemm without C, and a program over its result",
      .inputs = {{.name = "A", .dtypes = FloatTypes(), .same_as = "T"},
                 {.name = "B", .dtypes = FloatTypes(), .same_as = "T"},
                 FurtherOperands()},
      .outputs = {{.name = "Y"}},
      .attrs = {EpilogueAttr(), flag("transA", "A is [K,M]; matrices only"),
                flag("transB", "B is [N,K]; matrices only")},
      // Not in place: kernels write the whole product before its epilogue reads operands.
      .fusion = FusionClass::kContraction,
      .infer = [](InferContext& c) { return InferProduct("fused.MatMul", c); },
      .reference = [](const ReferenceContext& c) { return ReferenceProduct("fused.MatMul", c); },
      .work = ProductWork};
}

}  // namespace millrace
