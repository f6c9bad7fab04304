#include <utility>

#include "runtime/session_processes.h"
#include "runtime/wire.h"
#include "tools/checkpoint.h"

namespace millrace {

std::string EncodeCheckpoint(const Checkpoint& checkpoint) {
  WireWriter writer;
  writer.Put(checkpoint.step);
  writer.PutString(checkpoint.fingerprint);
  writer.Put(checkpoint.loss_sum);
  writer.Put(checkpoint.loss_steps);
  writer.Put(static_cast<uint64_t>(checkpoint.params.size()));
  for (const auto& [name, tensor] : checkpoint.params) {
    writer.PutString(name);
    writer.PutString(EncodeTensor(tensor));
  }
  return std::move(writer).Take();
}

absl::StatusOr<Checkpoint> DecodeCheckpoint(std::string_view bytes) {
  WireReader reader(bytes);
  Checkpoint checkpoint;
  checkpoint.step = reader.Get<int64_t>();
  checkpoint.fingerprint = reader.GetString();
  checkpoint.loss_sum = reader.Get<double>();
  checkpoint.loss_steps = reader.Get<int64_t>();
  const auto params = reader.Get<uint64_t>();
  for (uint64_t i = 0; i < params && reader.ok(); ++i) {
    const std::string name = reader.GetString();
    MILLRACE_ASSIGN_OR_RETURN(checkpoint.params[name], DecodeTensor(reader.GetString()));
  }
  if (!reader.ok()) return DistributedError("a checkpoint that is cut short");
  return checkpoint;
}

}  // namespace millrace
