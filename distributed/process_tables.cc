#include "distributed/process_tables.h"

#include <utility>

#include "runtime/wire.h"

namespace millrace {
namespace {

// Lists: their length, then each. A reader stops at the first thing that is missing, so a length
// that is wrong costs nothing.
template <typename List, typename PutOne>
void PutList(WireWriter& writer, const List& list, PutOne put) {
  writer.Put(static_cast<uint64_t>(list.size()));
  for (const auto& each : list) put(each);
}
template <typename GetOne>
void GetList(WireReader& reader, GetOne get) {
  const auto size = reader.Get<uint64_t>();
  for (uint64_t i = 0; i < size && reader.ok(); ++i) get();
}

void PutEndpoint(WireWriter& writer, const Endpoint& endpoint) {
  writer.Put(endpoint.program);
  PutList(writer, endpoint.coordinates, [&](int64_t coordinate) { writer.Put(coordinate); });
}
Endpoint GetEndpoint(WireReader& reader) {
  Endpoint endpoint;
  endpoint.program = reader.Get<int32_t>();
  GetList(reader, [&] { endpoint.coordinates.push_back(reader.Get<int64_t>()); });
  return endpoint;
}

void PutEnd(WireWriter& writer, const ChannelEnd& end) {
  PutEndpoint(writer, end.self);
  PutEndpoint(writer, end.peer);
  writer.Put(end.channel);
  writer.Put(end.sends);
  PutList(writer, end.transfers, [&](const Transfer& transfer) { writer.Put(transfer); });
  writer.Put(end.flags);
}
ChannelEnd GetEnd(WireReader& reader) {
  ChannelEnd end;
  end.self = GetEndpoint(reader);
  end.peer = GetEndpoint(reader);
  end.channel = reader.Get<Channel>();
  end.sends = reader.Get<bool>();
  GetList(reader, [&] { end.transfers.push_back(reader.Get<Transfer>()); });
  end.flags = reader.Get<uint64_t>();
  return end;
}

void PutSeat(WireWriter& writer, const GroupSeat& seat) {
  PutList(writer, seat.members, [&](const Endpoint& member) { PutEndpoint(writer, member); });
  writer.Put(seat.id);
  PutEndpoint(writer, seat.self);
  writer.Put(seat.member);
}
GroupSeat GetSeat(WireReader& reader) {
  GroupSeat seat;
  GetList(reader, [&] { seat.members.push_back(GetEndpoint(reader)); });
  seat.id = reader.Get<int32_t>();
  seat.self = GetEndpoint(reader);
  seat.member = reader.Get<uint64_t>();
  return seat;
}

absl::Status Whole(const WireReader& reader) {
  return reader.ok() ? absl::OkStatus() : DistributedError("a message that is cut short");
}

}  // namespace

std::string Encode(const ProcessRoll& roll) {
  WireWriter writer;
  PutList(writer, roll.endpoints, [&](const Endpoint& each) { PutEndpoint(writer, each); });
  PutList(writer, roll.mailboxes, [&](const auto& mailbox) {
    writer.PutString(mailbox.first);
    writer.Put(mailbox.second);
  });
  return std::move(writer).Take();
}

absl::StatusOr<ProcessRoll> DecodeRoll(std::string_view bytes) {
  WireReader reader(bytes);
  ProcessRoll roll;
  GetList(reader, [&] { roll.endpoints.push_back(GetEndpoint(reader)); });
  GetList(reader, [&] {
    const std::string name = reader.GetString();
    roll.mailboxes[name] = reader.Get<int64_t>();
  });
  MILLRACE_RETURN_IF_ERROR(Whole(reader));
  return roll;
}

std::string Encode(const ProcessTable& table) {
  WireWriter writer;
  writer.PutString(table.machine);
  PutList(writer, table.segments, [&](const SegmentName& name) { writer.Put(name); });
  PutList(writer, table.ends, [&](const ChannelEnd& end) { PutEnd(writer, end); });
  PutList(writer, table.seats, [&](const GroupSeat& seat) { PutSeat(writer, seat); });
  PutList(writer, table.mailboxes, [&](const auto& mailbox) {
    writer.PutString(mailbox.first);
    writer.Put(mailbox.second);
  });
  return std::move(writer).Take();
}

absl::StatusOr<ProcessTable> DecodeTable(std::string_view bytes) {
  WireReader reader(bytes);
  ProcessTable table;
  table.machine = reader.GetString();
  GetList(reader, [&] { table.segments.push_back(reader.Get<SegmentName>()); });
  GetList(reader, [&] { table.ends.push_back(GetEnd(reader)); });
  GetList(reader, [&] { table.seats.push_back(GetSeat(reader)); });
  GetList(reader, [&] {
    const std::string name = reader.GetString();
    table.mailboxes[name] = reader.Get<uint64_t>();
  });
  MILLRACE_RETURN_IF_ERROR(Whole(reader));
  return table;
}

}  // namespace millrace
