// What administrators allow: ProfilePolicy. Pure. Field meanings and ranges stand in crds/.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "operator/core/capture_spec.h"
#include "operator/core/label_selector.h"

namespace strobe {

struct ProfilePolicy {
  std::string name{};
  LabelSelector namespaces{};
  std::vector<std::string> allowed_logdirs{};  // Prefixes; "{namespace}" stands for the request's.
  std::optional<Nanos> max_duration{};
  std::optional<int> max_concurrent{};  // Captures of one namespace at once.
  std::optional<Nanos> min_interval{};  // From the end of one capture to the start of the next.
  std::optional<std::uint64_t> max_bytes{};  // Per worker; a request must ask for no more.
  std::string invalid{};                     // Why it allows nothing; empty when it is well.
};

// Captures of a namespace besides the one in question.
struct Crowd {
  int active = 0;  // Under way, or being begun before it.
  int ahead = 0;   // Have waited longer for the same.
};

// A namespace as policies see it.
struct NamespaceFacts {
  std::string name{};
  std::map<std::string, std::string> labels{};
  Crowd crowd{};
  std::optional<WallTime> last_end{};  // Of the last capture that ended.
};

struct PolicyVerdict {
  enum class Kind { kAllowed, kWait, kRefused };
  Kind kind = Kind::kAllowed;
  std::string message{};  // Names the policy and what it allows; empty when allowed.
  // After which it is worth another look; none = when a capture of the namespace ends.
  std::optional<Nanos> wait{};
};

// A request is allowed when one policy that matches the namespace allows all of it. No policy
// matches: refused. Wait: what is in the way will pass by itself.
PolicyVerdict JudgeByPolicies(const std::vector<ProfilePolicy>& policies,
                              const NamespaceFacts& space, const CaptureSpec& capture,
                              WallTime now);

// Refuses logdirs that no policy should have to think of: buckets that are addresses or names
// inside of clusters, options that send a pod's signed requests elsewhere. InvalidArgument.
absl::Status CheckLogdirIsNoAddress(const std::string& logdir);
// Whether `logdir` is `prefix` or lies below it, part by part, both normalised.
bool IsBelow(const std::string& logdir, const std::string& prefix);

}  // namespace strobe
