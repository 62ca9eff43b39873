#include "sidecar/source/agent/line_events.h"

#include <algorithm>
#include <span>
#include <tuple>

namespace strobe::source {
namespace {

// CUPTI's clock and the ticks agree to a fraction of this. A call that seems to begin this little
// before its surrounding annotation is moved into it.
constexpr std::int64_t kClockSlackPs = 2'000'000;

}  // namespace

void SortEvents(std::vector<LineEvent>& events) {
  std::sort(events.begin(), events.end(), [](const LineEvent& a, const LineEvent& b) {
    return std::tie(a.begin_ps, b.end_ps) < std::tie(b.begin_ps, a.end_ps);
  });
}

void AddCalls(const std::vector<HostCall>& calls, std::vector<LineEvent>& events) {
  const std::size_t annotations = events.size();
  for (const HostCall& call : calls) {
    LineEvent event{.begin_ps = call.begin_ps, .end_ps = call.end_ps, .call = &call, .text = {}};
    const auto within = std::span(events).first(annotations);
    auto next =
        std::upper_bound(within.begin(), within.end(), event.begin_ps,
                         [](std::int64_t at, const LineEvent& e) { return at < e.begin_ps; });
    for (; next != within.end() && next->begin_ps <= event.begin_ps + kClockSlackPs; ++next) {
      if (next->end_ps >= event.end_ps - kClockSlackPs && next->begin_ps < event.end_ps)
        event.begin_ps = next->begin_ps;
    }
    events.push_back(event);
  }
  SortEvents(events);
  std::vector<std::int64_t> ends;  // The ends of the open events.
  for (LineEvent& event : events) {
    while (!ends.empty() && ends.back() <= event.begin_ps) ends.pop_back();
    if (event.call != nullptr && !ends.empty() && event.end_ps > ends.back())
      event.end_ps = ends.back();
    ends.push_back(event.end_ps);
  }
}

}  // namespace strobe::source
