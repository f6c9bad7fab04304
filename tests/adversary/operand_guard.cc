#include "tests/adversary/operand_guard.h"

#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "tests/adversary/red_zone.h"

namespace millrace {
namespace {

constexpr int64_t kAlignment = 256;  // copies lie as their operands do, modulo this

}  // namespace

void OperandGuard::Add(std::byte* data, int64_t size_bytes, bool read, bool written,
                       std::string name) {
  operands_.push_back({data, data == nullptr ? 0 : size_bytes, read, written, std::move(name)});
}

absl::Status OperandGuard::Run(
    absl::FunctionRef<absl::Status(const std::vector<void*>& addresses)> run) {
  std::vector<Island> islands = MakeIslands();
  std::vector<void*> addresses(operands_.size(), nullptr);
  for (Island& island : islands) {
    Fill(island);
    for (const size_t i : island.operands) {
      addresses[i] = island.copy + (operands_[i].data - island.begin);
    }
  }
  MILLRACE_RETURN_IF_ERROR(run(addresses));
  for (const Island& island : islands) MILLRACE_RETURN_IF_ERROR(CheckAndReturn(island));
  return absl::OkStatus();
}

std::vector<OperandGuard::Island> OperandGuard::MakeIslands() const {
  std::vector<size_t> order;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].data != nullptr) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(operands_[a].data, a) < std::pair(operands_[b].data, b);
  });
  std::vector<Island> islands;
  for (const size_t i : order) {
    const Operand& operand = operands_[i];
    std::byte* const end = operand.data + operand.size_bytes;
    if (islands.empty() || operand.data >= islands.back().end) {
      islands.push_back({.begin = operand.data, .end = end, .operands = {}, .memory = {}});
    }
    islands.back().end = std::max(islands.back().end, end);
    islands.back().operands.push_back(i);
  }
  return islands;
}

void OperandGuard::Fill(Island& island) const {
  const int64_t size = island.end - island.begin;
  island.memory.assign(static_cast<size_t>(size + 2 * kRedZone + kAlignment), kRed);
  const auto place = [](const std::byte* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % kAlignment);
  };
  std::byte* const first = island.memory.data() + kRedZone;
  island.copy = first + (place(island.begin) - place(first) + kAlignment) % kAlignment;
  std::memcpy(island.copy, island.begin, static_cast<size_t>(size));
  std::vector<bool> is_read(static_cast<size_t>(size), false);
  for (const size_t i : island.operands) {
    if (!operands_[i].read) continue;
    const auto begin = is_read.begin() + (operands_[i].data - island.begin);
    std::fill(begin, begin + operands_[i].size_bytes, true);
  }
  for (int64_t at = 0; at < size; ++at) {
    if (!is_read[at]) island.copy[at] = kPoison;
  }
}

absl::Status OperandGuard::CheckAndReturn(const Island& island) const {
  const int64_t size = island.end - island.begin;
  const auto name = [&](int64_t at) {  // of the operand at or before a place
    std::string name;
    for (const size_t i : island.operands) {
      if (name.empty() || operands_[i].data - island.begin <= at) name = operands_[i].name;
    }
    return name;
  };
  std::vector<bool> may(static_cast<size_t>(size), false);
  for (const size_t i : island.operands) {
    if (!operands_[i].written) continue;
    const auto begin = may.begin() + (operands_[i].data - island.begin);
    std::fill(begin, begin + operands_[i].size_bytes, true);
  }
  for (const std::byte* p = island.memory.data(); p < island.memory.data() + island.memory.size();
       ++p) {
    const int64_t at = p - island.copy;
    if (at < 0 || at >= size) {
      if (*p == kRed) continue;
      return InternalError(StrCat("the kernel writes ", at < 0 ? -at : at - size + 1, " bytes ",
                                  at < 0 ? "before" : "past", " operand ", name(at)));
    }
    if (may[at]) {
      island.begin[at] = *p;
    } else if (*p != island.begin[at]) {
      return InternalError(StrCat("the kernel writes to operand ", name(at), ", which it reads"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
