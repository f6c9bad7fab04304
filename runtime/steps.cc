#include "runtime/steps.h"

#include <algorithm>

namespace millrace {

void** AddressPool::Add(std::span<void* const> addresses) {
  if (addresses.size() > free_) {
    free_ = std::max(kBlock, addresses.size());
    block_size_ = free_;
    blocks_.push_back(std::make_unique<void*[]>(free_));
  }
  if (blocks_.empty()) return nullptr;  // only for no addresses
  void** place = blocks_.back().get() + (block_size_ - free_);
  std::ranges::copy(addresses, place);
  free_ -= addresses.size();
  return place;
}

}  // namespace millrace
