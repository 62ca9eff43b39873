// How namespaces share what alerts and signs may cause: reads of the API server, and starts of
// captures. Not safe for concurrent use.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/fair/token_bucket.h"

namespace strobe::fair {

// When captures may be started: one a second, which namespaces share. Each has one start in as many
// seconds as there are namespaces that have asked for one lately. So a storm of alerts in one
// namespace leaves starts for the others, and alone it has them all.
class StartShares {
 public:
  // Whether the namespace may start a capture now. If not, it counts as one that asks.
  bool MayStart(const std::string& ns, MonoTime now);
  // Takes a start; false if there is none.
  bool Take(const std::string& ns, MonoTime now);
  // The start that was taken last has started nothing, so that others may have it. Its namespace
  // still has to pause, because what is refused costs reads of the API server too.
  void GiveBack() { free_ = free_before_; }

  std::size_t size() const { return asking_.size(); }

 private:
  struct Share {
    MonoTime asked_at{};                // When it was turned away, or took a start, last.
    std::optional<MonoTime> started{};  // When it took a start last.
  };

  bool IsFree(const std::string& ns, MonoTime now);
  Share* Ask(const std::string& ns, MonoTime now);

  std::map<std::string, Share> asking_;  // By namespace; bounded.
  MonoTime swept_{};                     // When namespaces were last removed.
  MonoTime free_{}, free_before_{};      // When the next start is free, and was before the last.
};

// Limits the reads of the API server that alerts and signs cause. Any namespace may use one half of
// the rate. The namespaces that have asked lately share the other half, and one share is kept free,
// so that a storm in one namespace leaves reads for the others. What the webhooks read is shared in
// the same way, by those who call them.
class ReadShares {
 public:
  ReadShares(double per_second, double burst, MonoTime now)
      : shared_per_second_(per_second / 2),
        free_(per_second / 2, burst / 2, now),
        shared_(per_second / 2, burst / 2, now),
        turned_(now) {}

  // Takes a read; false if there is none for this namespace now.
  bool Take(const std::string& ns, MonoTime now);

  std::size_t size() const { return asking_.size(); }

 private:
  struct Share {
    MonoTime asked_at{};  // When it asked last.
    double taken = 0;     // How many reads it had of the shared half in this second.
  };

  const double shared_per_second_;
  TokenBucket free_, shared_;
  std::map<std::string, Share> asking_;  // By namespace; bounded.
  MonoTime turned_;                      // When this second began.
};

}  // namespace strobe::fair
