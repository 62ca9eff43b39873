#include "operator/trigger/read_shares.h"

#include <algorithm>

namespace strobe::trigger {
namespace {

constexpr Nanos kReadTurn = std::chrono::seconds(1);
// How long a namespace counts after it has asked. What was sent back is sent again sooner.
constexpr Nanos kStillReads = std::chrono::seconds(10);
// Further namespaces have only the half without shares.
constexpr std::size_t kMaxReaders = 1000;

}  // namespace

bool ReadShares::Take(const std::string& ns, MonoTime now) {
  if (now - turned_ >= kReadTurn) {
    turned_ = now;
    std::erase_if(asking_,
                  [now](const auto& entry) { return now - entry.second.asked_at > kStillReads; });
    for (auto& [name, share] : asking_) share.taken = 0;
  }
  Share* share = nullptr;
  if (asking_.size() < kMaxReaders || asking_.contains(ns)) {
    share = &asking_[ns];
    share->asked_at = now;
  }
  free_.Refill(now);
  if (free_.Take()) return true;
  shared_.Refill(now);
  // One share stays free for a namespace that begins to ask. A share is at least one read.
  const double most = std::max(1.0, shared_per_second_ / static_cast<double>(asking_.size() + 1));
  if (share == nullptr || share->taken + 1 > most || !shared_.Take()) return false;
  ++share->taken;
  return true;
}

}  // namespace strobe::trigger
