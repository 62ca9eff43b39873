#include "sidecar/source/base/tick_timeline.h"

#include <cmath>

namespace strobe::source {
namespace {

constexpr std::size_t kMaxKept = 256;
constexpr double kStraightNs = 50'000;  // Readings of both clocks are more precise than this.

double TicksFrom(const wire::TickMoment& a, const wire::TickMoment& b) {
  return static_cast<double>(static_cast<std::int64_t>(b.ticks - a.ticks));
}

double NsFrom(const wire::TickMoment& a, const wire::TickMoment& b) {
  return static_cast<double>(static_cast<std::int64_t>(b.other_ns - a.other_ns));
}

double RateOf(const wire::TickMoment& a, const wire::TickMoment& b) {
  const double ticks = TicksFrom(a, b);
  return ticks > 0 ? NsFrom(a, b) / ticks : 1;
}

}  // namespace

void TickTimeline::Note(const wire::TickMoment& moment) {
  if (went_back_) return;
  const wire::TickMoment& newest = last_.empty() ? kept_.back() : last_.back();
  if (static_cast<std::int64_t>(moment.ticks - newest.ticks) < 0) {
    went_back_ = true;
    back_ = moment;
    return;
  }
  if (moment.ticks == newest.ticks) return;
  if (!last_.empty() && kept_.size() < kMaxKept) {
    const double expected = TicksFrom(newest, moment) * RateOf(kept_.back(), newest);
    if (std::abs(NsFrom(newest, moment) - expected) > kStraightNs) kept_.push_back(newest);
  }
  last_.assign(1, moment);
}

std::vector<wire::TickMoment> TickTimeline::Moments() const {
  std::vector<wire::TickMoment> moments = kept_;
  moments.insert(moments.end(), last_.begin(), last_.end());
  return moments;
}

double TickTimeline::ns_per_tick() const {
  const std::vector<wire::TickMoment> moments = Moments();
  const double all_ns = NsFrom(moments.front(), moments.back());
  const double all_ticks = TicksFrom(moments.front(), moments.back());
  double longest = 0, rate = 1;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    // A piece with a jump of one clock is short on the other one.
    const double part = std::min(NsFrom(moments[i - 1], moments[i]) / all_ns,
                                 TicksFrom(moments[i - 1], moments[i]) / all_ticks);
    if (part <= longest) continue;
    longest = part;
    rate = RateOf(moments[i - 1], moments[i]);
  }
  return rate;
}

TickScale TickTimeline::Scale(std::int64_t start_ns) const {
  const std::vector<wire::TickMoment> moments = Moments();
  const auto ps = [start_ns](const wire::TickMoment& moment) {
    return (static_cast<std::int64_t>(moment.other_ns) - start_ns) * 1000;
  };
  TickScale scale{.ticks = moments.front().ticks,
                  .ps = ps(moments.front()),
                  .ps_per_tick = ns_per_tick() * 1000,
                  .bends = {}};
  if (moments.size() < 3) return scale;
  for (std::size_t i = 0; i + 1 < moments.size(); ++i)
    scale.bends.push_back(
        {moments[i].ticks, ps(moments[i]), RateOf(moments[i], moments[i + 1]) * 1000});
  return scale;
}

std::uint64_t TickTimeline::jump_ns() const {
  std::vector<wire::TickMoment> moments = Moments();
  if (went_back_) moments.push_back(back_);
  const double rate = ns_per_tick();
  double worst = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const double expected = TicksFrom(moments[i - 1], moments[i]) * rate;
    const double off = std::abs(NsFrom(moments[i - 1], moments[i]) - expected);
    // A deviation below one part in a thousand is drift, not a step.
    if (off >= std::abs(expected) / 1000) worst = std::max(worst, off);
  }
  constexpr double kLeastNs = 1e6, kMostNs = 9e18;
  return worst < kLeastNs ? 0 : static_cast<std::uint64_t>(std::min(worst, kMostNs));
}

}  // namespace strobe::source
