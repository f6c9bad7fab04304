// fused.Program on the chain machine (chain.h). Preparing compiles the program to code
// (fused_code.h); running walks the index space (fused_worker.h).
#include <algorithm>
#include <utility>

#include "graph/assert.h"
#include "ops/cpu/fused_worker.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

class FusedKernel final : public Kernel {
 public:
  FusedKernel(PreparedFused prepared, int threads)
      : p_(std::move(prepared)),
        shares_(SharesOf(p_)),
        steps_(p_.space.Points() * std::ssize(p_.program.instructions) / 4),
        worker_bytes_(p_.WorkerBytes()),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    ParallelFor(threads_, shares_.count, steps_, shares_.unit, [&](int64_t begin, int64_t end) {
      std::byte* memory = static_cast<std::byte*>(args.scratch) + TeamIndex() * worker_bytes_;
      RunFusedShares(p_, args, memory, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const PreparedFused p_;
  const FusedShares shares_;
  const int64_t steps_;  // what ParallelFor weighs a team against
  const int64_t worker_bytes_;
  const int threads_;
};

std::optional<PreparedFused> PrepareQuery(const NodeQuery& query) {
  absl::StatusOr<FusedProgram> program = ParseFusedProgram(query.attrs.String("program", ""));
  return program.ok() ? PrepareFused(*std::move(program)) : std::nullopt;
}

// A result may lie on an operand of its type: then each element must be read where it is written,
// and before.
bool MayLieInPlace(const PreparedFused& p, const NodeQuery& query) {
  for (size_t o = 0; o < p.program.outputs.size(); ++o) {
    const ScalarOp source = p.program.instructions[p.program.outputs[o].value].op;
    if (source == ScalarOp::kLoad && p.program.outputs.size() > 1) return false;
    for (size_t i = 0; i < query.inputs.size(); ++i) {
      if (query.inputs[i] != query.outputs[o]) continue;
      for (size_t d = 0; d < p.space.sizes.size(); ++d) {
        const bool same = p.space.operand_strides[i][d] == p.space.output_strides[o][d];
        if (p.space.sizes[d] > 1 && !same) return false;
      }
    }
  }
  return true;
}

// A map's results are written in the order of its points.
bool IsDenseMap(const FusedSpace& space) {
  const std::vector<int64_t> dense = DenseSpaceStrides(space);
  return space.kind != FusedSpace::Kind::kMap ||
         std::ranges::all_of(space.output_strides, [&](const auto& s) { return s == dense; });
}

std::optional<KernelVariant> MatchFused(const NodeQuery& query, int threads) {
  if (query.op != "fused.Program") return std::nullopt;
  const std::optional<PreparedFused> prepared = PrepareQuery(query);
  if (!prepared.has_value() || !MayLieInPlace(*prepared, query) || !IsDenseMap(prepared->space)) {
    return std::nullopt;
  }
  KernelVariant variant = DenseVariant(query, "simd");
  variant.scratch_bytes = prepared->WorkerBytes() * threads;
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareFusedKernel(const KernelRequest& request) {
  std::optional<PreparedFused> prepared = PrepareQuery(request.query);
  MILLRACE_CHECK(prepared.has_value());  // it matched
  return std::make_unique<FusedKernel>(*std::move(prepared), request.threads);
}

}  // namespace

KernelFamily FusedProgramFamily() { return {"simd", MatchFused, PrepareFusedKernel}; }

}  // namespace millrace
