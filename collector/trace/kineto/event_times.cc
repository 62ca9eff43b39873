// Which times TracePlanes' events have, and which they cannot have.
#include <algorithm>
#include <limits>

#include "collector/trace/kineto/trace_planes.h"

namespace strobe::kineto {

// Decides from which time all times count, and takes the events that waited for it.
void TracePlanes::BeginTimes() {
  begun_ = true;
  origin_us_ = first_.MedianUs();
  for (const TraceEvent& event : first_.events()) Take(event);
  first_.Clear();
}

// nullopt, and counted, if the event has no usable time.
std::optional<std::int64_t> TracePlanes::TimeOf(const TraceEvent& event) {
  const std::optional<Micros> time = ParseMicros(event.ts.text);
  if (time && !origin_us_) origin_us_ = time->us;
  // Half of what 64 bits hold, so that the difference of two times always fits.
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 2;
  const auto since_origin = [&] {
    const std::optional<std::int64_t> ps = time ? time->PsSince(*origin_us_) : std::nullopt;
    return ps && *ps <= kMax && *ps >= -kMax ? ps : std::nullopt;
  };
  std::optional<std::int64_t> ps = since_origin();
  if (time && !ps && times_.all_may_be_lost()) {
    StartAgain(time->us);
    ps = since_origin();
  }
  if (!ps) {
    ++report_.bad_time;
    --report_.events;
    return std::nullopt;
  }
  times_.Add(*ps, MayBeLost(*time));
  return ps;
}

// All events so far had times that were lost, as it turns out, and their line's times count from
// the wrong one.
void TracePlanes::StartAgain(std::int64_t origin_us) {
  const std::uint64_t lost = times_.Find(zero_is_lost_).count;
  report_.bad_time += lost;
  report_.events -= lost;
  report_.spans = 0;
  for (const std::unique_ptr<Line>& line : lines_.all()) {
    line->LeaveOutAll();
    line->open.clear();
  }
  async_.clear();
  open_bytes_ = 0;
  pending_.line = nullptr;
  marks_ = {};
  flow_ends_ = {};
  marks_in_order_ = true;
  async_mark_ps_ = Line::kNever;
  times_ = {};
  origin_us_ = origin_us;
}

// Leaves out the events with impossible times, and finds out when the trace begins and ends.
void TracePlanes::LeaveOutUnusual() {
  usual_ = times_.Find(zero_is_lost_);
  report_.bad_time += usual_.left_out;
  report_.events -= usual_.left_out;
  begin_ps_ = usual_.first_ps;
  end_ps_ = usual_.last_ps;
  for (const std::unique_ptr<Line>& line : lines_.all()) {
    if (line->count == 0) continue;
    if (!line->IsUsual(usual_)) {
      const Line::Changes changes = line->KeepUsual(usual_, bytes_);
      report_.spans -= changes.left_out;
      report_.negative += changes.shortened;
    }
    end_ps_ = std::max(end_ps_, line->end_ps);
  }
}

}  // namespace strobe::kineto
