#include "collector/trace/kineto/first_events.h"

#include <algorithm>
#include <vector>

#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

void FirstEvents::Keep(const TraceEvent& event) {
  const auto keep = [this](std::string_view& text) {
    bytes_ += text.size() + sizeof(std::string);
    if (!text.empty()) text = texts_.emplace_back(text);
  };
  TraceEvent& kept = events_.emplace_back(event);
  for (std::string_view* text : {&kept.name, &kept.category, &kept.pid, &kept.tid, &kept.ts.text,
                                 &kept.dur.text, &kept.id.text})
    keep(*text);
  for (std::vector<Member>* members : {&kept.args, &kept.other_members}) {
    for (Member& member : *members) {
      keep(member.key);
      keep(member.value.text);
    }
  }
  const std::optional<Micros> time = ParseMicros(kept.ts.text);
  if (time && !MayBeLost(*time)) ++timed_;
}

std::optional<std::int64_t> FirstEvents::MedianUs() const {
  std::vector<std::int64_t> times;
  for (const TraceEvent& event : events_) {
    const std::optional<Micros> time = ParseMicros(event.ts.text);
    if (time && (timed_ == 0 || !MayBeLost(*time))) times.push_back(time->us);
  }
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void FirstEvents::Clear() {
  events_.clear();
  texts_.clear();
  bytes_ = timed_ = 0;
}

}  // namespace strobe::kineto
