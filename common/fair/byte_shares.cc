#include "common/fair/byte_shares.h"

#include <algorithm>

namespace strobe::fair {

bool ByteShares::Holding::Grow(std::uint64_t bytes) {
  if (bytes == 0) return true;
  MutexLock lock(&shares_->mutex_);
  if (bytes > shares_->Left(asker_)) return false;
  shares_->by_asker_[asker_] += bytes;
  shares_->held_ += bytes;
  bytes_ += bytes;
  return true;
}

void ByteShares::Holding::Release() {
  if (bytes_ == 0) return;
  MutexLock lock(&shares_->mutex_);
  const auto own = shares_->by_asker_.find(asker_);
  own->second -= bytes_;
  if (own->second == 0) shares_->by_asker_.erase(own);
  shares_->held_ -= std::exchange(bytes_, 0);
}

ByteShares::Holding ByteShares::Begin(std::shared_ptr<ByteShares> shares, std::string asker) {
  Holding holding;
  holding.shares_ = std::move(shares);
  holding.asker_ = std::move(asker);
  return holding;
}

std::uint64_t ByteShares::Left(const std::string& asker) const {
  const auto own = by_asker_.find(asker);
  const std::uint64_t mine = own == by_asker_.end() ? 0 : own->second;
  return std::min(limits_.all - std::min(limits_.all, held_),
                  limits_.each - std::min(limits_.each, mine));
}

std::uint64_t ByteShares::LeftFor(const std::string& asker) {
  MutexLock lock(&mutex_);
  return Left(asker);
}

std::uint64_t ByteShares::held() {
  MutexLock lock(&mutex_);
  return held_;
}

}  // namespace strobe::fair
