// What captures of one job may cost, and whether one more may start. A ProfileTrigger has such a
// budget for its own captures, and a ProfilePolicy for those that all schedules and triggers of a
// namespace start. Pure: it follows from the runs that exist.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/base/run_creator.h"

namespace strobe::policy {

// Without a value there is no limit.
struct CaptureBudget {
  std::optional<Nanos> cool_down{};  // Between the starts of two captures.
  std::optional<int> captures_per_day{};
  std::optional<double> duty_cycle{};  // Recorded part of the last 24 hours, 0 to 1.
  std::optional<std::uint64_t> bytes_per_day{};

  bool any() const { return cool_down || captures_per_day || duty_cycle || bytes_per_day; }
};

// Budgets count what was started in this time before now, and runs that they count are kept for as
// long. Alerts that began earlier start nothing, because the runs that they started may be gone.
inline constexpr Nanos kBudgetDay = std::chrono::hours(24);

// Which limit is reached. The names are part of the status.
inline constexpr char kCoolDown[] = "CoolDown", kCapturesPerDay[] = "CapturesPerDay",
                      kDutyCycle[] = "DutyCycle", kBytesPerDay[] = "BytesPerDay";

// What one job has used of its budget in the last 24 hours.
struct JobUse {
  std::string job{};
  std::size_t captures = 0;
  Nanos recorded{};
  std::uint64_t bytes = 0;
  std::optional<WallTime> last{};

  bool operator==(const JobUse&) const = default;
};

// Adds what the run has used.
void AddUse(const kube::CreatedRun& run, WallTime now, JobUse& use);

struct UsedUp {
  kube::RunRefusal refusal{};       // `reason` is one of the above.
  std::optional<WallTime> until{};  // None: one capture alone is more than the budget allows.
};

// Why a capture that records `duration`, with what it looks back, must not start now; none if it
// may. `runs` are those that the budget
// counts, the newest first.
std::optional<UsedUp> WhyUsedUp(const CaptureBudget& budget,
                                const std::vector<const kube::CreatedRun*>& runs, Nanos duration,
                                WallTime now);

// The fields coolDown, capturesPerDay, dutyCycle and bytesPerDay of `given`. InvalidArgument names
// the one that is wrong as "<field>.<name>". Throws nlohmann's exceptions if one has the wrong
// type.
absl::StatusOr<CaptureBudget> ReadBudget(const nlohmann::json& given, const std::string& field);

}  // namespace strobe::policy
