#include "collector/store/retry_policy.h"

#include <algorithm>

namespace strobe::storage {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr Nanos kMinWait = milliseconds(200);
}  // namespace

bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnauthenticated(status);
}

std::optional<Nanos> RetryDelay(const absl::Status& status, int tries, Nanos left, double dice) {
  if (!WorthRetrying(status)) return std::nullopt;
  const Nanos full =
      std::min<Nanos>(seconds(5), milliseconds(100) * (1LL << std::min(tries - 1, 10)));
  const Nanos delay{static_cast<Nanos::rep>(static_cast<double>(full.count()) * (1 - dice / 2))};
  if (delay < left) return delay;
  // Uses half of the remaining time for the wait, unless it is too short for another attempt.
  return left > kMinWait ? std::optional(left / 2) : std::nullopt;
}

}  // namespace strobe::storage
