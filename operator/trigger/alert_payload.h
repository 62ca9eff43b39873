// Reads what Alertmanager posts to a webhook: version 4 of its payload.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/trigger/alert.h"

namespace strobe::trigger {

// At most this many alerts of a post are read. Alertmanager repeats a refused post unchanged, so
// refusing a longer one would lose all of its alerts; instead, the first ones are taken.
inline constexpr std::size_t kMaxAlertsPerPost = 1000;

struct AlertPayload {
  std::vector<Alert> alerts{};  // Within the bounds of operator/trigger/alert.h.
  std::uint64_t truncated = 0;  // Alerts that the sender left out.
  std::size_t too_many = 0;     // Alerts beyond kMaxAlertsPerPost.
  std::size_t invalid = 0;      // Alerts that lack a field or exceed a bound.
  std::string why_invalid{};    // What is wrong with the first one, and its index.
  std::size_t cut = 0;          // Annotations that were shortened or left out.
};

// InvalidArgument, for the sender, if the body is not such a payload. An alert that is invalid does
// not make the payload invalid, because others that share its post may matter more.
absl::StatusOr<AlertPayload> ParseAlerts(const std::string& body);

}  // namespace strobe::trigger
