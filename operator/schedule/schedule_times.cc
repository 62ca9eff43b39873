#include "operator/schedule/schedule_times.h"

#include <algorithm>
#include <limits>

#include "common/base/duration.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::schedule {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Nanos kMinInterval = seconds(5), kMaxInterval = std::chrono::hours(24 * 366);

// SplitMix64, which turns consecutive numbers into independent ones.
std::uint64_t Scatter(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

absl::Status InField(std::string_view field, const absl::Status& status) {
  return absl::InvalidArgumentError(StrCat(field, ": ", MessageOf(status)));
}

}  // namespace

std::string Timing::Text() const {
  if (interval) {
    return StrCat("every ", FormatDuration(*interval),
                  jitter > Nanos{0} ? StrCat(", jitter ", FormatDuration(jitter)) : "");
  }
  return time_zone.empty() ? cron : StrCat(cron, " ", time_zone);
}

absl::StatusOr<ScheduleTimes> ScheduleTimes::Make(const Timing& timing, WallTime created,
                                                  std::string_view uid) {
  ScheduleTimes times;
  times.created_ = std::chrono::floor<seconds>(created);
  times.zone_ = absl::UTCTimeZone();
  if (timing.cron.empty() != timing.interval.has_value())
    return absl::InvalidArgumentError("give exactly one of schedule and interval");
  if (timing.interval) {
    // The schema refuses these values, but an older schema may be installed.
    if (*timing.interval < kMinInterval || *timing.interval > kMaxInterval ||
        *timing.interval % seconds(1) != Nanos{0})
      return absl::InvalidArgumentError("interval: it must be whole seconds, from 5s to 366 days");
    if (timing.jitter > *timing.interval)
      return absl::InvalidArgumentError("jitter: it must be at most the interval");
    times.interval_ = *timing.interval;
    times.jitter_seconds_ = timing.jitter / seconds(1);
    times.seed_ = Fnv1a(uid);
    return times;
  }
  absl::StatusOr<CronExpression> cron = CronExpression::Parse(timing.cron);
  if (!cron.ok()) return InField("schedule", cron.status());
  if (!timing.time_zone.empty()) {
    const absl::StatusOr<absl::TimeZone> zone = FindTimeZone(timing.time_zone);
    if (!zone.ok()) return InField("timeZone", zone.status());
    times.zone_ = *zone;
  }
  times.cron_ = *std::move(cron);
  if (!times.Next(created)) {
    return absl::InvalidArgumentError(
        StrCat("schedule: \"", timing.cron, "\" never occurs within nine years"));
  }
  return times;
}

// Jitter is less than the interval, so that the times ascend with their numbers.
WallTime ScheduleTimes::AtInterval(std::int64_t number) const {
  WallTime time = created_ + number * interval_;
  if (jitter_seconds_ > 0) {
    const std::uint64_t scattered = Scatter(seed_ ^ static_cast<std::uint64_t>(number));
    time += seconds(scattered % static_cast<std::uint64_t>(jitter_seconds_));
  }
  return time;
}

// The number of the last time that is not after `until`; 0 = there is none yet.
std::int64_t ScheduleTimes::CountIntervals(WallTime until) const {
  if (until < created_ + interval_) return 0;
  const std::int64_t number = (until - created_) / interval_;
  return AtInterval(number) <= until ? number : number - 1;
}

std::optional<WallTime> ScheduleTimes::Next(WallTime after) const {
  if (cron_) return cron_->Next(after, zone_);
  return AtInterval(CountIntervals(after) + 1);
}

ScheduleTimes::Passed ScheduleTimes::Between(WallTime after, WallTime until) const {
  Passed passed;
  if (until <= after) return passed;
  if (!cron_) {
    const std::int64_t before = CountIntervals(after), last = CountIntervals(until);
    passed.count = std::min(last - before, kMaxCounted);
    if (passed.count > 0) passed.last = AtInterval(last);
    if (passed.count > 1) passed.before_last = AtInterval(last - 1);
    return passed;
  }
  const auto walk = [&](WallTime from, std::int64_t most) {
    Passed seen;
    std::optional<WallTime> time = cron_->Next(from, zone_);
    for (; time && *time <= until && seen.count < most; time = cron_->Next(*time, zone_)) {
      seen.before_last = seen.last;
      seen.last = time;
      ++seen.count;
    }
    return seen;
  };
  passed = walk(after, kMaxCounted);
  if (passed.count < kMaxCounted) return passed;
  // Too many to visit all of them: the last two are searched for from the end.
  Passed end;
  for (Nanos window = minutes(2); end.count < 2 && window < until - after; window *= 2)
    end = walk(until - window, kMaxCounted);
  if (end.count < 2 || end.count == kMaxCounted)
    end = walk(after, std::numeric_limits<std::int64_t>::max());
  passed.last = end.last;
  passed.before_last = end.before_last;
  return passed;
}

}  // namespace strobe::schedule
