#include "operator/schedule/schedule.h"

#include <cctype>

#include "absl/time/time.h"
#include "common/base/strings.h"

namespace strobe::schedule {
namespace {

// As many characters as "20261124-120000" has.
constexpr std::string_view kStampShape = "dddddddd-dddddd";

}  // namespace

std::string RunNameOf(std::string_view schedule, WallTime time) {
  return StrCat(schedule, "-",
                absl::FormatTime("%Y%m%d-%H%M%S", absl::FromUnixNanos(ToUnixNanos(time)),
                                 absl::UTCTimeZone()));
}

std::string ScheduleOfRun(std::string_view run) {
  run = kube::UsualRunName(run);
  if (run.size() < kStampShape.size() + 2) return "";
  const std::string_view stamp = run.substr(run.size() - kStampShape.size());
  for (std::size_t i = 0; i < stamp.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(stamp[i])) != 0;
    if (kStampShape[i] == 'd' ? !digit : stamp[i] != kStampShape[i]) return "";
  }
  run.remove_suffix(kStampShape.size());
  return run.back() == '-' ? std::string(run.substr(0, run.size() - 1)) : "";
}

std::optional<WallTime> TimeOfRun(std::string_view run) {
  const std::string schedule = ScheduleOfRun(run);
  if (schedule.empty()) return std::nullopt;
  absl::Time time;
  std::string error;
  const std::string_view stamp = kube::UsualRunName(run).substr(schedule.size() + 1);
  if (!absl::ParseTime("%E4Y%m%d-%H%M%S", ToAbsl(stamp), absl::UTCTimeZone(), &time, &error))
    return std::nullopt;
  return FromUnixNanos(absl::ToUnixNanos(time));
}

}  // namespace strobe::schedule
