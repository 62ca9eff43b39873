#include "collector/store/prefetch.h"

#include <algorithm>

#include "common/base/strings.h"

namespace strobe::storage {

PrefetchedBytes::Block PrefetchedBytes::Fetch(std::uint64_t index) const {
  return std::async(
             std::launch::async,
             [this, index]() -> absl::StatusOr<std::shared_ptr<std::vector<char>>> {
               const std::uint64_t offset = index * kBlock;
               auto bytes = std::make_shared<std::vector<char>>(
                   static_cast<std::size_t>(std::min(kBlock, size_ - offset)));
               const absl::StatusOr<std::size_t> got = store_.Read(key_, offset, *bytes);
               if (!got.ok()) return got.status();
               if (*got != bytes->size()) {
                 return absl::DataLossError(StrCat(key_, " became shorter while it was read"));
               }
               return bytes;
             })
      .share();
}

PrefetchedBytes::Block PrefetchedBytes::Get(std::uint64_t index) const {
  MutexLock lock(&mutex_);
  const std::uint64_t count = (size_ + kBlock - 1) / kBlock;
  for (std::uint64_t i = index; i < std::min(index + 1 + kAhead, count); ++i) {
    if (!blocks_.contains(i)) blocks_[i] = Fetch(i);
  }
  // Drops blocks before this one, which were read, and blocks far behind it, which belong to
  // another position of the reader.
  std::erase_if(blocks_, [&](const auto& block) {
    return block.first < index || block.first > index + kAhead;
  });
  return blocks_[index];
}

absl::Status PrefetchedBytes::Read(std::uint64_t offset, std::span<char> into) const {
  if (into.size() >= kBlock) {
    const absl::StatusOr<std::size_t> got = store_.Read(key_, offset, into);
    if (!got.ok()) return got.status();
    if (*got == into.size()) return absl::OkStatus();
    return absl::DataLossError(StrCat(key_, " became shorter while it was read"));
  }
  while (!into.empty()) {
    const Block block = Get(offset / kBlock);
    const auto& bytes = block.get();
    if (!bytes.ok()) return bytes.status();
    const std::uint64_t skip = offset % kBlock;
    const std::size_t some =
        static_cast<std::size_t>(std::min<std::uint64_t>((*bytes)->size() - skip, into.size()));
    std::copy_n((*bytes)->data() + skip, some, into.data());
    into = into.subspan(some);
    offset += some;
  }
  return absl::OkStatus();
}

}  // namespace strobe::storage
