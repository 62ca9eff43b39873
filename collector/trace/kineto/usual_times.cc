#include "collector/trace/kineto/usual_times.h"

#include <algorithm>
#include <vector>

namespace strobe::kineto {
namespace {

constexpr std::int64_t kMinute = 60'000'000'000'000, kDay = 1440 * kMinute;

// Programs record for seconds to hours. What is this many times as far away as the recording is
// long does not belong to it, if it is little.
constexpr std::int64_t kFar = 64, kFew = 8;
// A time of 0 is suspicious by itself.
constexpr std::int64_t kFarForZero = 8;

// Not more than half of what 64 bits hold, so that sums and differences of two times fit.
std::int64_t Times(std::int64_t length_ps, std::int64_t factor) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 2;
  return length_ps > kMax / factor ? kMax : length_ps * factor;
}

}  // namespace

void UsualTimes::Span::Add(const Span& other) {
  first_ps = std::min(first_ps, other.first_ps);
  last_ps = std::max(last_ps, other.last_ps);
  count += other.count;
}

void UsualTimes::Add(std::int64_t ps, bool may_be_lost) {
  const Span added{ps, ps, 1};
  if (may_be_lost) return may_be_lost_.Add(added);
  const std::int64_t minute = ps >= 0 ? ps / kMinute : -1 - (-1 - ps) / kMinute;
  if (recent_span_ == nullptr || minute != recent_) {
    recent_ = minute;
    recent_span_ = &spans_[minute];
  }
  recent_span_->Add(added);
}

// Whether the times that may be lost are too far from the usual ones to be meant.
bool UsualTimes::IsFar(const Span& usual, bool zero_is_lost) const {
  const std::int64_t gap =
      std::max(usual.first_ps - may_be_lost_.last_ps, may_be_lost_.first_ps - usual.last_ps);
  const std::int64_t length = usual.last_ps - usual.first_ps;
  return gap > (zero_is_lost ? kMinute : std::max(kMinute, Times(length, kFarForZero)));
}

UsualTimes::Usual UsualTimes::Find(bool zero_is_lost) const {
  if (spans_.empty() && may_be_lost_.count == 0) return {};
  // Spans that are less than a day apart belong together.
  std::vector<Span> groups;
  for (const auto& [minute, span] : spans_) {
    if (groups.empty() || span.first_ps - groups.back().last_ps > kDay) groups.emplace_back();
    groups.back().Add(span);
  }
  Span usual;
  std::uint64_t left_out = 0;
  if (!groups.empty()) {
    const Span most = *std::max_element(groups.begin(), groups.end(),
                                        [](auto& a, auto& b) { return a.count < b.count; });
    const std::int64_t far = Times(most.last_ps - most.first_ps, kFar);
    for (const Span& group : groups) {
      const std::int64_t gap =
          std::max(group.first_ps - most.last_ps, most.first_ps - group.last_ps);
      if (gap <= far || group.count > most.count / kFew) usual.Add({group.first_ps, group.last_ps});
    }
    for (const Span& group : groups) {
      const bool inside = usual.first_ps <= group.first_ps && group.last_ps <= usual.last_ps;
      (inside ? usual.count : left_out) += group.count;
    }
  }
  if (may_be_lost_.count > 0) {
    if (usual.count > 0 && IsFar(usual, zero_is_lost))
      left_out += may_be_lost_.count;
    else
      usual.Add(may_be_lost_);
  }
  Usual found{.first_ps = usual.first_ps,
              .last_ps = usual.last_ps,
              .count = usual.count,
              .left_out = left_out};
  // One event alone, or a few, may really last for days.
  if (usual.count >= kFew)
    found.latest_end_ps =
        usual.last_ps + std::max(kDay, Times(usual.last_ps - usual.first_ps, kFar));
  return found;
}

void EventTimes::CountFrom(std::optional<std::int64_t> origin_us) {
  origin_us_ = origin_us;
  times_ = {};
}

std::optional<std::int64_t> EventTimes::Add(const Micros& time) {
  if (!origin_us_) origin_us_ = time.us;
  const std::optional<std::int64_t> ps = PsSinceOrigin(time);
  if (ps) times_.Add(*ps, MayBeLost(time));
  return ps;
}

std::optional<std::int64_t> EventTimes::PsSinceOrigin(const Micros& time) const {
  // Half of what 64 bits hold, so that the difference of two times always fits.
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 2;
  const std::optional<std::int64_t> ps = origin_us_ ? time.PsSince(*origin_us_) : std::nullopt;
  return ps && *ps <= kMax && *ps >= -kMax ? ps : std::nullopt;
}

}  // namespace strobe::kineto
