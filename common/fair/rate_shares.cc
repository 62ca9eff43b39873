#include "common/fair/rate_shares.h"

#include <algorithm>
#include <cstdint>

namespace strobe::fair {
namespace {

// Each capture causes about six more writes to the API server while it runs, so two captures begun
// at once would cause more than ten in a second.
constexpr Nanos kStartPause = std::chrono::seconds(1);
// How long a namespace counts after it has asked. Alertmanager sends alerts again within a minute.
constexpr Nanos kStillAsks = std::chrono::minutes(1);
// Further namespaces start captures without a share of their own, when there is a start.
constexpr std::size_t kMaxSharers = 1000;

constexpr Nanos kReadTurn = std::chrono::seconds(1);
// How long a namespace counts after it has asked. What was sent back is sent again sooner.
constexpr Nanos kStillReads = std::chrono::seconds(10);
// Further namespaces have only the half without shares.
constexpr std::size_t kMaxReaders = 1000;

}  // namespace

bool StartShares::MayStart(const std::string& ns, MonoTime now) {
  const bool free = IsFree(ns, now);
  if (!free) Ask(ns, now);
  return free;
}

bool StartShares::Take(const std::string& ns, MonoTime now) {
  if (!MayStart(ns, now)) return false;
  if (Share* share = Ask(ns, now); share != nullptr) share->started = now;
  free_before_ = free_;
  free_ = now + kStartPause;
  return true;
}

bool StartShares::IsFree(const std::string& ns, MonoTime now) {
  if (now - swept_ >= kStartPause) {
    swept_ = now;
    std::erase_if(asking_,
                  [now](const auto& entry) { return now - entry.second.asked_at > kStillAsks; });
  }
  if (now < free_) return false;
  const auto share = asking_.find(ns);
  if (share == asking_.end() || !share->second.started) return true;
  return now - *share->second.started >= kStartPause * static_cast<std::int64_t>(asking_.size());
}

StartShares::Share* StartShares::Ask(const std::string& ns, MonoTime now) {
  if (asking_.size() >= kMaxSharers && !asking_.contains(ns)) return nullptr;
  Share& share = asking_[ns];
  share.asked_at = now;
  return &share;
}

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

}  // namespace strobe::fair
