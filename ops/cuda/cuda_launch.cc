#include "ops/cuda/cuda_launch.h"

#include <cstdio>

#include "absl/strings/str_replace.h"
#include "graph/strings.h"

namespace millrace {

CudaParam InputParam(const NodeQuery& query, size_t i) {
  return {CudaParam::Kind::kInput, static_cast<int>(i), 0, ByteSize(*query.inputs[i]), true, false};
}

CudaParam OutputParam(const NodeQuery& query, size_t i) {
  return {
      CudaParam::Kind::kOutput, static_cast<int>(i), 0, ByteSize(*query.outputs[i]), false, true};
}

CudaParam ScratchParam(int64_t offset_bytes, int64_t size_bytes, bool reads, bool writes) {
  return {CudaParam::Kind::kScratch, 0, offset_bytes, size_bytes, reads, writes};
}

std::string_view DeviceType(DType dtype) { return DTypeName(dtype); }

CudaLaunch NamedLaunch(std::string_view what, std::string_view source) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : source) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  CudaLaunch launch;
  launch.function = StrCat(what, "_", digits);
  launch.source =
      absl::StrReplaceAll(AbslView(source), {{AbslView(kFunctionName), AbslView(launch.function)}});
  return launch;
}

CudaWork LibraryWork(CudaLaunch launch, std::vector<CudaParam> operands, int64_t workspace_bytes,
                     int64_t alignment) {
  CudaWork work;
  work.scratch_bytes = workspace_bytes + alignment;
  launch.params = std::move(operands);
  launch.params.insert(launch.params.begin() + 3,
                       ScratchParam(0, work.scratch_bytes, /*reads=*/true, /*writes=*/true));
  work.launches.push_back(std::move(launch));
  return work;
}

}  // namespace millrace
