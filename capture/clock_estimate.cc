#include "capture/clock_estimate.h"

#include <algorithm>

// How OffsetAt estimates a clock's offset at a moment, from a measurement before a recording and
// one after it:
//
//  1. Without the second measurement, the offset is the first one, and its error grows by the
//  largest
//     rate at which a clock may be pulled.
//  2. With both, the offset moves from the first to the second by the most likely part of the
//  change
//     (PartOfChange), which weighs the measurements' errors against the usual drift of clocks.
//  3. Keep it within what both measurements allow at the usual drift, if they agree.
//  4. The error interval is what both measurements allow at the largest rate. Between them, the
//     offset is also assumed to only grow or only shrink. If the measurements contradict each
//     other, somebody set a clock meanwhile, and only that assumption remains.
//  5. Keep the offset within that interval; its error is the distance to the farther end.
namespace strobe::capture {
namespace {

// Divides first: a worker may tell any time, and the product would overflow after three years.
Nanos ChangeOver(Nanos time, std::int64_t per_million) {
  return std::chrono::abs(time) / (1'000'000 / per_million);
}

struct Range {
  Nanos least{}, most{};
};

// Where the offset is at another time, if the clocks went apart at this rate at most.
Range RangeAt(WallTime when, const ClockOffset& measured, std::int64_t per_million) {
  const Nanos off = *measured.error + ChangeOver(when - measured.at, per_million);
  return {measured.offset - off, measured.offset + off};
}

Range Both(const Range& a, const Range& b) {
  return {std::max(a.least, b.least), std::min(a.most, b.most)};
}

double Seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

// The most likely part, from 0 to 1, of the change between the two measured offsets that has
// happened after `passed`. It is the mean of a Gaussian whose prior is that the clock does not
// drift: the part of the time that has passed if both measurements are precise compared with the
// drift, and 0 if only the first one is.
double PartOfChange(Nanos passed, Nanos whole, Nanos error_before, Nanos error_after) {
  const double drift = static_cast<double>(kUsualDriftPerMillion) / 1e6;
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
    return {when, before.offset, *before.error + ChangeOver(when - before.at, kMaxSlewPerMillion)};
  const Nanos whole = after->at - before.at;
  const Nanos passed = std::clamp(Nanos(when - before.at), Nanos{0}, whole);
  const Nanos change = after->offset - before.offset;
  const double part = PartOfChange(passed, whole, *before.error, *after->error);
  const Nanos moved{static_cast<std::int64_t>(static_cast<double>(change.count()) * part)};
  Nanos offset = before.offset + moved;
  const auto around = [&](std::int64_t per_million) {
    return Both(RangeAt(when, before, per_million), RangeAt(when, *after, per_million));
  };
  const Range usual = around(kUsualDriftPerMillion);
  if (usual.least <= usual.most) offset = std::clamp(offset, usual.least, usual.most);
  Range sure = around(kMaxSlewPerMillion);
  const Range monotone{std::min(before.offset - *before.error, after->offset - *after->error),
                       std::max(before.offset + *before.error, after->offset + *after->error)};
  if (sure.least > sure.most) sure = monotone;  // Somebody set a clock between the measurements.
  if (when >= before.at && when <= after->at) sure = Both(sure, monotone);
  offset = std::clamp(offset, sure.least, sure.most);
  return {when, offset, std::max(offset - sure.least, sure.most - offset)};
}

}  // namespace strobe::capture
