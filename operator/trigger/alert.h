// An alert from somebody else's monitoring, and the port to what decides on it.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "operator/base/job_kinds.h"

namespace strobe::trigger {

// Bounds that every receiver of alerts enforces, so that one alert is at most about 100 KiB.
inline constexpr std::size_t kMaxAlertLabels = 64;      // Also the most annotations.
inline constexpr std::size_t kMaxAlertNameBytes = 256;  // Limits the name of a label or annotation.
inline constexpr std::size_t kMaxAlertValueBytes = 512;
inline constexpr std::size_t kMaxFingerprintBytes = 64;

struct Alert {
  std::string fingerprint{};  // Identifies the set of labels.
  bool firing = false;        // False: it is resolved.
  std::map<std::string, std::string> labels{}, annotations{};
  WallTime starts{};
  // If it is a sign that a worker told: what was seen, as a sentence, and the worker's job.
  std::string sign{};
  std::optional<kube::JobRef> sign_job{};
};

// Safe for concurrent use.
class AlertSink {
 public:
  virtual ~AlertSink() = default;
  // Decides on these alerts, and has created what is to be created when it returns OK. Idempotent:
  // the same alert again starts nothing new. Unavailable: send them again later.
  virtual absl::Status Take(std::span<const Alert> alerts, MonoTime until) = 0;
};

}  // namespace strobe::trigger
