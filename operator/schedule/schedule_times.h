// The times at which a ProfileSchedule starts runs: by a cron expression, or at an interval. They
// follow from the object alone, so every operator computes the same times. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/schedule/cron.h"

namespace strobe::schedule {

// When to start runs, as the spec says it: by `cron`, or at `interval`.
struct Timing {
  std::string cron{}, time_zone{};  // An empty time zone is UTC.
  std::optional<Nanos> interval{};
  Nanos jitter{};

  // For people, and to notice a change: "0 * * * * Europe/Berlin" or "every 10m, jitter 1m".
  std::string Text() const;
};

class ScheduleTimes {
 public:
  // Intervals count from `created`, and jitter follows from `uid`. InvalidArgument names the field
  // that is wrong.
  static absl::StatusOr<ScheduleTimes> Make(const Timing& timing, WallTime created,
                                            std::string_view uid);

  // The first time after `after`; none if there is none within nine years.
  std::optional<WallTime> Next(WallTime after) const;

  // The times in (after, until].
  struct Passed {
    std::optional<WallTime> last{}, before_last{};
    std::int64_t count = 0;  // kMaxCounted means that many or more.
  };
  Passed Between(WallTime after, WallTime until) const;
  static constexpr std::int64_t kMaxCounted = 10'000;

 private:
  WallTime AtInterval(std::int64_t number) const;
  std::int64_t CountIntervals(WallTime until) const;

  std::optional<CronExpression> cron_{};
  absl::TimeZone zone_{};
  WallTime created_{};
  Nanos interval_{};
  std::int64_t jitter_seconds_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace strobe::schedule
