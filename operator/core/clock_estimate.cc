#include "operator/core/clock_estimate.h"

#include <algorithm>

namespace strobe {
namespace {

// Divides first: a worker may tell any time, and the product would overflow after three years.
Nanos DriftOver(Nanos time) { return std::chrono::abs(time) / (1'000'000 / kMaxDriftPerMillion); }

// The error of a measurement at another time, because the clocks drift meanwhile.
Nanos ErrorAt(WallTime when, const ClockOffset& measured) {
  return *measured.error + DriftOver(when - measured.at);
}

double Seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

// The most likely part, from 0 to 1, of the change between the two measured offsets that has
// happened after `passed`. It is the mean of a Gaussian whose prior is that the clock does not
// drift: the part of the time that has passed if both measurements are precise compared with the
// drift, and 0 if only the first one is.
double PartOfChange(Nanos passed, Nanos whole, Nanos error_before, Nanos error_after) {
  const double drift = static_cast<double>(kMaxDriftPerMillion) / 1e6;
  const double spread = drift * drift * Seconds(whole);
  const double before =
      spread * Seconds(whole - passed) + Seconds(error_after) * Seconds(error_after);
  const double after = spread * Seconds(passed) + Seconds(error_before) * Seconds(error_before);
  return before + after > 0 ? after / (before + after) : 0;
}

}  // namespace

ClockOffset OffsetAt(WallTime when, const ClockOffset& before,
                     const std::optional<ClockOffset>& after) {
  if (!before.error) return {.at = when, .offset = before.offset};
  if (!after || !after->error || after->at <= before.at)
    return {when, before.offset, ErrorAt(when, before)};
  const Nanos whole = after->at - before.at;
  const Nanos passed = std::clamp(Nanos(when - before.at), Nanos{0}, whole);
  const Nanos change = after->offset - before.offset;
  const double part = PartOfChange(passed, whole, *before.error, *after->error);
  const Nanos moved{static_cast<std::int64_t>(static_cast<double>(change.count()) * part)};
  ClockOffset then{when, before.offset + moved};
  const Nanos monotone = std::max(*before.error, *after->error) + std::chrono::abs(change);
  const Nanos first = ErrorAt(when, before), second = ErrorAt(when, *after);
  const Nanos least = std::max(before.offset - first, after->offset - second);
  const Nanos most = std::min(before.offset + first, after->offset + second);
  if (least > most) {
    // Somebody adjusted a clock between the two measurements.
    then.error = monotone;
    return then;
  }
  then.offset = std::clamp(then.offset, least, most);
  then.error = std::max(then.offset - least, most - then.offset);
  if (when >= before.at && when <= after->at) then.error = std::min(*then.error, monotone);
  return then;
}

}  // namespace strobe
