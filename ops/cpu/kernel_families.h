// The families, one per file of this folder.
#ifndef MILLRACE_OPS_CPU_KERNEL_FAMILIES_H_
#define MILLRACE_OPS_CPU_KERNEL_FAMILIES_H_

#include "ops/cpu/kernel_family.h"

namespace millrace {

KernelFamily EmptyFamily();          // empty.cc
KernelFamily FusedProgramFamily();   // fused_program.cc
KernelFamily SimdUnaryFamily();      // simd_unary.cc
KernelFamily SimdBinaryFamily();     // simd_binary.cc
KernelFamily LoopBinaryFamily();     // loop_binary.cc
KernelFamily SimdWhereFamily();      // simd_where.cc
KernelFamily SimdSoftmaxFamily();    // simd_softmax.cc
KernelFamily SimdAttentionFamily();  // simd_attention.cc
KernelFamily SimdLayerNormFamily();  // simd_layer_norm.cc
KernelFamily SimdBatchNormFamily();  // simd_batch_norm.cc
KernelFamily SimdGroupNormFamily();  // simd_group_norm.cc
KernelFamily SimdReduceFamily();     // simd_reduce.cc
KernelFamily SimdCastFamily();       // simd_cast.cc
KernelFamily CopyFamily();           // copy.cc
KernelFamily TransposeFamily();      // transpose.cc
KernelFamily JoinFamily();           // join.cc
KernelFamily GatherFamily();         // gather.cc
KernelFamily GradGatherFamily();     // grad_gather.cc
KernelFamily MapCopyFamily();        // map_copy.cc
KernelFamily SmallConvFamily();      // small_conv.cc
KernelFamily SmallMatMulFamily();    // small_matmul.cc
KernelFamily SimdPoolFamily();       // simd_pool.cc
KernelFamily SimdPoolLastFamily();   // simd_pool_last.cc
KernelFamily WinogradFamily();       // winograd.cc
KernelFamily ChannelsLastFamily();   // channels_last.cc
KernelFamily SimdOptimizerFamily();  // simd_optimizer.cc
KernelFamily SimdLabelLossFamily();  // simd_label_loss.cc
KernelFamily LoopGradPoolFamily();   // loop_grad_pool.cc
KernelFamily ReferenceFamily();      // reference.cc

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_KERNEL_FAMILIES_H_
