// Limits the rate and the concurrency of requests per client address, for requests that cause calls
// to the API server. Most API servers present no certificate to webhooks, so anyone who reaches the
// webhooks' port can send requests. Safe for concurrent use.
#pragma once
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/token_bucket.h"

namespace strobe::http {

// What counts as one address: the first 64 bits of an IPv6 address, because one machine may use all
// of that network, and any other text unchanged.
std::string NetworkOf(const std::string& address);

class SourceLimiter {
 public:
  // An address here is a network; see above.
  struct Limits {
    double per_second = 50, burst = 200;  // Per address.
    int at_once = 4;                      // Per address.
    // The limit for all addresses together. One address holds at most as many as are still free, so
    // that a few busy addresses always leave room for another one.
    int all_at_once = std::numeric_limits<int>::max();
    std::size_t sources = 1024;  // Number of remembered addresses.
  };

  // `clock` must outlive this object.
  explicit SourceLimiter(const Clock& clock) : SourceLimiter(clock, Limits()) {}
  SourceLimiter(const Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  // Returns an object to hold during the request, or null if a limit is reached. `part` names for
  // whom the address asks, such as the namespace whose objects an API server has reviewed. While
  // half of the address's burst is left, a part has what it asks for. Below that it has a quarter
  // of the rate and of the burst, so that one part cannot use up what the others need. It never has
  // all that the address may have at once.
  std::shared_ptr<void> Enter(const std::string& address, const std::string& part = "");
  // Like Enter, for a client that has proved who it is: only `all_at_once` limits it. A part of it
  // has at most as many as are still free, so that there is room for another one.
  std::shared_ptr<void> EnterKnown(const std::string& part = "");

 private:
  struct Source {
    fair::TokenBucket bucket;
    int running = 0;
  };
  using Sources = std::map<std::string, Source>;
  // `share` of an address's rate and burst is what a new one of these sources gets.
  Source& Find(Sources& sources, const std::string& name, double share) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const Limits limits_;
  Mutex mutex_;
  Sources sources_ ABSL_GUARDED_BY(mutex_);
  Sources parts_ ABSL_GUARDED_BY(mutex_);  // By address and part.
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe::http
