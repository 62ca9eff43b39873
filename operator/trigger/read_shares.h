// Limits the reads of the API server that alerts and signs cause. Any namespace may use one half of
// the rate. The namespaces that have asked lately share the other half, and one share is kept free,
// so that a storm in one namespace leaves reads for the others. What the webhooks read is shared in
// the same way, by those who call them. Not safe for concurrent use.
#pragma once
#include <cstddef>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/token_bucket.h"

namespace strobe::trigger {

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

}  // namespace strobe::trigger
