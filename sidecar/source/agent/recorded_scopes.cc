#include "sidecar/source/agent/recorded_scopes.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "collector/trace/xplane/trace_me_text.h"
#include "common/base/strings.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {
namespace {

// CUPTI's clock and the ticks agree to a fraction of this. A call that seems to begin this little
// before its surrounding annotation is moved into it.
constexpr std::int64_t kClockSlackPs = 2'000'000;
// How many annotations are tried for a call. Only forged ones are more in so little time.
constexpr std::ptrdiff_t kMaxLooks = 64;

void AddToLine(const LineEvent& event, xplane::PlaneBuilder& host) {
  const std::int64_t length = event.end_ps - event.begin_ps;
  if (event.call != nullptr) {
    host.AddEvent(host.EventId(event.call->name), event.begin_ps, length);
    if (event.call->correlation == 0) return;
    host.AddEventStat(host.StatId("device_id"), std::uint64_t{event.call->device});
    host.AddEventStat(host.StatId("correlation_id"), event.call->correlation);
    host.AddEventStat(host.StatId("context_id"), xplane::Ref{StrCat("$$", event.call->context)});
    return;
  }
  const xplane::TraceMeText parsed = xplane::ParseTraceMe(event.text);
  host.AddEvent(host.EventId(parsed.name), event.begin_ps, length);
  for (const auto& [key, value] : parsed.args)
    host.AddEventStat(host.StatId(key), xplane::TypedValue(value));
}

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
    const auto end = next + std::min(kMaxLooks, within.end() - next);
    for (; next != end && next->begin_ps <= event.begin_ps + kClockSlackPs; ++next) {
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

RecordedScopes::RecordedScopes(const wire::RingFile& file, RecordsFrom from, std::uint32_t level)
    : file_(file), level_(level), without_ring_before_(WithoutRing()) {
  OpenReaders(from);
}

// Rings that are created later belong to the capture from their first record.
void RecordedScopes::OpenReaders(RecordsFrom from) {
  const std::uint32_t rings =
      std::min(file_.header()->rings.load(std::memory_order_acquire), file_.max_rings());
  while (readers_.size() < rings) {
    const auto index = static_cast<std::uint32_t>(readers_.size());
    readers_.emplace_back(file_.ring(index), file_.data(index), file_.ring_words());
    if (from != RecordsFrom::kStart) {
      dropped_before_ += readers_.back().dropped();
      cut_before_ += readers_.back().cut();
    }
    if (from == RecordsFrom::kStart) readers_.back().SkipToStart();
    if (from == RecordsFrom::kOldest || from == RecordsFrom::kEnded)
      wrapped_ = readers_.back().SkipToOldest() || wrapped_;
  }
}

double RecordedScopes::Drain(wire::RecordBuffer& buffer, std::uint64_t& budget) {
  OpenReaders(RecordsFrom::kStart);
  double filled = 0;
  for (wire::RingReader& reader : readers_) {
    filled = std::max(filled, reader.filled());
    reader.Drain(buffer, [&](const wire::ScopeRecord& record) {
      // Another wisher requested a higher level than this capture.
      if (record.level > level_) return;
      const std::uint64_t cost = sizeof(Event) + record.text.size();
      if (cost > budget) {
        ++over_budget_;
        return;
      }
      budget -= cost;
      Thread& thread = threads_[reader.thread().id];
      if (thread.events.empty()) thread.name = reader.thread().name.data();
      thread.events.push_back({.begin = record.begin,
                               .end = record.end,
                               .text = thread.text.size(),
                               .size = record.text.size()});
      thread.text.append(record.text);
      ++kept_;
    });
  }
  return filled;
}

void RecordedScopes::NoteEnd() {
  made_at_end_.clear();
  for (const wire::RingReader& reader : readers_) made_at_end_.push_back(reader.made());
}

void RecordedScopes::CountUnseen(bool lives) {
  unseen_ = 0;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const wire::RingReader& reader = readers_[i];
    // Scopes that end after the recording are outside of the window.
    const std::uint64_t made = !lives                    ? reader.made()
                               : i < made_at_end_.size() ? made_at_end_[i]
                                                         : 0;
    // A writer that was killed may have counted a record that it did not complete.
    const std::uint64_t unseen = reader.unseen(made), allowed = lives ? 0 : 1;
    if (unseen > allowed && !reader.damaged()) unseen_ += unseen;
  }
}

std::uint64_t RecordedScopes::WithoutRing() const {
  std::uint64_t records = 0;
  for (const wire::StripedCounter& stripe : file_.header()->without_ring)
    records += stripe.value.load(std::memory_order_relaxed);
  return records;
}

std::uint64_t RecordedScopes::lost() const {
  std::uint64_t lost = over_budget_ + unseen_ + WithoutRing() - without_ring_before_;
  std::uint64_t dropped = 0;
  // Events that end after the last drain are outside of the window.
  for (const wire::RingReader& reader : readers_) {
    lost += reader.lost();
    dropped += reader.dropped();
  }
  return lost + dropped - dropped_before_;
}

std::uint64_t RecordedScopes::cut() const {
  std::uint64_t cut = 0;
  for (const wire::RingReader& reader : readers_) cut += reader.cut();
  return cut - std::min(cut, cut_before_);
}

bool RecordedScopes::damaged() const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const wire::RingReader& reader) { return reader.damaged(); });
}

std::optional<std::uint64_t> RecordedScopes::last_ticks() const {
  std::optional<std::uint64_t> last;
  for (const auto& [id, thread] : threads_) {
    for (const Event& event : thread.events) last = std::max(last.value_or(event.end), event.end);
  }
  return last;
}

std::int64_t RecordedScopes::LatestFirstNs(const TickScale& scale) const {
  std::int64_t latest = 0;
  for (const auto& [id, thread] : threads_) {
    if (!thread.events.empty())
      latest = std::max(latest, scale.Ps(thread.events.front().begin) / 1000);
  }
  return latest;
}

std::optional<RecordedScopes::StepTimes> RecordedScopes::TimesOfSteps(
    std::string_view loop, std::int64_t first, std::int64_t last, const TickScale& scale) const {
  std::optional<StepTimes> times;
  for (const auto& [id, thread] : threads_) {
    for (const Event& event : thread.events) {
      const auto step = StepOf(std::string_view(thread.text).substr(event.text, event.size));
      if (!step || !step->number || !session::IsLoop(step->loop, loop) || *step->number < first ||
          *step->number > last)
        continue;
      const StepTimes found{scale.Ps(event.begin) / 1000, scale.Ps(event.end) / 1000};
      if (!times) times = found;
      times->begin_ns = std::min(times->begin_ns, found.begin_ns);
      times->end_ns = std::max(times->end_ns, found.end_ns);
    }
  }
  return times;
}

void RecordedScopes::Build(const TickScale& scale, std::int64_t window_ps, const std::string& label,
                           const std::map<std::uint32_t, std::vector<HostCall>>& calls,
                           xplane::PlaneBuilder& host) const {
  std::set<std::uint32_t> ids;
  for (const auto& [id, thread] : threads_) ids.insert(id);
  for (const auto& [id, list] : calls) ids.insert(id);
  std::vector<LineEvent> events;
  for (const std::uint32_t id : ids) {
    events.clear();
    std::string_view name;
    if (const auto thread = threads_.find(id); thread != threads_.end()) {
      name = thread->second.name;
      for (const Event& event : thread->second.events) {
        const std::int64_t begin = scale.Ps(event.begin), end = scale.Ps(event.end);
        if (begin < 0 || end > window_ps || end < begin) continue;
        events.push_back(
            {.begin_ps = begin,
             .end_ps = end,
             .call = nullptr,
             .text = std::string_view(thread->second.text).substr(event.text, event.size)});
      }
      SortEvents(events);
    }
    if (const auto list = calls.find(id); list != calls.end()) AddCalls(list->second, events);
    host.BeginLine(id, StrCat(label, label.empty() ? "" : " ", name, "/", id), 0);
    for (const LineEvent& event : events) AddToLine(event, host);
  }
}

}  // namespace strobe::source
