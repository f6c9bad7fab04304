// Epilogues (ops/fused_product.h) as oneDNN post-ops. Included by onednn_*.cc only.
#ifndef MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
#define MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_

#include <optional>
#include <vector>

#include "ops/cpu/onednn_primitive.h"
#include "ops/fused_product.h"

namespace millrace {

struct PostOp {
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float alpha = 0, beta = 0;  // elementwise
  int operand = -1;           // binary: which further operand of the epilogue, from 0; -1: elementwise
};

struct EpiloguePlan {
  std::vector<PostOp> post_ops;
  // Of the further operands, broadcast to the result's rank: all of its elements, one for each
  // channel (dim 1), or one.
  std::vector<DnnlDims> operand_dims;

  bool IsWhole(const DnnlDims& dst, int operand) const { return operand_dims[operand] == dst; }
};

// The post-ops that compute exactly that program, up to the rounding of oneDNN's functions; a NaN
// that goes through a bound (Relu, Clip) may become the bound. nullopt: there are none.
std::optional<EpiloguePlan> PlanEpilogue(const FusedProduct& product);

// `whole`: in which layout operands of the result's size are taken.
dnnl::primitive_attr AttrFor(const EpiloguePlan& plan, const DnnlDims& dst,
                             dnnl::memory::desc (*whole)(const DnnlDims& dims));

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_EPILOGUE_H_
