// Cron expressions as Kubernetes' CronJob reads them: five fields with lists, ranges, steps and
// names, or a macro such as @hourly. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace strobe::schedule {

class CronExpression {
 public:
  // InvalidArgument names the field that is wrong.
  static absl::StatusOr<CronExpression> Parse(std::string_view text);

  // The first minute after `after` whose local time matches; none if there is none within nine
  // years. Local times that a change to summer time skips do not occur, and those that the change
  // back repeats occur twice.
  std::optional<WallTime> Next(WallTime after, const absl::TimeZone& zone) const;

 private:
  bool MatchesDay(absl::CivilDay day) const;

  // Bit N: the value N matches.
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  // A day must match both of its fields if one of them is "*", else one of them.
  bool both_days_ = false;
};

// A zone of the IANA database, such as Europe/Berlin. InvalidArgument for names that are not known
// here, and for names that could be a path.
absl::StatusOr<absl::TimeZone> FindTimeZone(std::string_view name);

}  // namespace strobe::schedule
