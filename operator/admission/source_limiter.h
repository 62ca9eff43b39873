// How often, and how many at once, one address may ask what costs the API server something. Most
// API servers show webhooks no certificate, so whoever reaches the port can ask. Safe for
// concurrent use.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe {

class SourceLimiter {
 public:
  struct Limits {
    double per_second = 50, burst = 200;  // Of one address.
    int at_once = 4;                      // Of one address.
    std::size_t sources = 1024;           // Addresses that are remembered.
  };

  // The clock outlives it.
  explicit SourceLimiter(const Clock& clock) : SourceLimiter(clock, Limits()) {}
  SourceLimiter(const Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  // Held while the question is answered; null: not now.
  std::shared_ptr<void> Enter(const std::string& source);

 private:
  struct Source {
    double tokens = 0;
    MonoTime refilled{};
    int running = 0;
  };
  Source& Find(const std::string& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const Limits limits_;
  Mutex mutex_;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
