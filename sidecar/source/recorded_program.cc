#include "sidecar/source/recorded_program.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "collector/base/strings.h"
#include "collector/xplane/trace_me_text.h"

namespace strobe {
namespace {

using wire::DevicePhase;

// CUPTI's clock and ours agree to a fraction of this; a call that seems to begin so little before
// the annotation around it began within it.
constexpr std::int64_t kClockSlackPs = 2'000'000;

// What goes onto a thread's line, in the order of begin and, for equal ones, outer first.
struct LineEvent {
  std::int64_t begin_ps = 0, end_ps = 0;
  const HostCall* call = nullptr;  // Else an annotation:
  std::string_view text{};
};

void Order(std::vector<LineEvent>& events) {
  std::sort(events.begin(), events.end(), [](const LineEvent& a, const LineEvent& b) {
    return std::tie(a.begin_ps, b.end_ps) < std::tie(b.begin_ps, a.end_ps);
  });
}

// `events` are annotations, in order. Events of one line nest; the clocks' small disagreement must
// not break that.
void AddCalls(const std::vector<HostCall>& calls, std::vector<LineEvent>& events) {
  const std::size_t annotations = events.size();
  for (const HostCall& call : calls) {
    LineEvent event{call.begin_ps, call.end_ps, &call, {}};
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
  Order(events);
  std::vector<std::int64_t> ends;  // Of what is open.
  for (LineEvent& event : events) {
    while (!ends.empty() && ends.back() <= event.begin_ps) ends.pop_back();
    if (event.call != nullptr && !ends.empty() && event.end_ps > ends.back())
      event.end_ps = ends.back();
    ends.push_back(event.end_ps);
  }
}

}  // namespace

RecordedProgram::RecordedProgram(wire::RingFile file, From from)
    : file_(std::move(file)),
      kind_(file_.header()->tick_kind),
      begin_(wire::MonotonicMoment(kind_)),
      from_(from),
      without_ring_before_(file_.header()->without_ring.load(std::memory_order_relaxed)) {}

void RecordedProgram::SetLevel(std::uint32_t level, std::uint32_t filter) {
  file_.header()->filter.store(filter, std::memory_order_relaxed);
  file_.header()->control.store(level, std::memory_order_relaxed);
}

void RecordedProgram::ArmDevice(Nanos most) {
  wire::FileHeader& header = *file_.header();
  device_reader_.emplace(file_.device_ring(), file_.device_data(), file_.device_words());
  device_lost_before_ = header.device_lost.load(std::memory_order_relaxed);
  // Another number than any that the program has answered to, and never 0.
  wish_ = static_cast<std::uint32_t>(header.device_state.load() >> 32) + 1;
  if (wish_ == 0) wish_ = 1;
  header.device_until = wire::MonotonicNs() + static_cast<std::uint64_t>(most.count());
  header.device_control.store(wish_, std::memory_order_release);
  file_.WakeProgram();
}

void RecordedProgram::DisarmDevice() {
  if (wish_ == 0) return;
  wire::FileHeader& header = *file_.header();
  header.device_control.store(0, std::memory_order_release);
  file_.WakeProgram();
}

DeviceStatus RecordedProgram::device_status() const {
  const wire::FileHeader& header = *file_.header();
  const std::uint64_t state = header.device_state.load(std::memory_order_acquire);
  DeviceStatus status{.uses_cuda = uses_cuda()};
  status.asked = wish_ != 0;
  status.answered = status.asked && state >> 32 == wish_;
  if (status.answered) status.phase = static_cast<DevicePhase>(static_cast<std::uint32_t>(state));
  status.step = static_cast<wire::DeviceStep>(header.device_step.load(std::memory_order_relaxed));
  status.result = header.device_result.load(std::memory_order_relaxed);
  status.lost = header.device_lost.load(std::memory_order_relaxed) - device_lost_before_;
  return status;
}

bool RecordedProgram::DeviceSettled() const {
  if (wish_ == 0 || !lives()) return true;
  const DeviceStatus status = device_status();
  if (!status.answered) return !status.uses_cuda;
  return status.phase != DevicePhase::kArmed;
}

std::optional<std::int64_t> RecordedProgram::DeviceBegan(const TraceWindow& window) const {
  if (device_.clocks.empty()) return std::nullopt;
  return Scale(window).Ps(device_.clocks.front().ticks) / 1000 -
         (window.recording_ns - window.start_ns);
}

std::optional<std::int64_t> RecordedProgram::KeptOnly(const TraceWindow& window) const {
  const std::int64_t wanted = window.recording_ns - window.start_ns;
  if (wanted == 0 || !wrapped_) return std::nullopt;
  const TickScale scale = Scale(window);
  std::int64_t latest = 0;  // Of the threads' first events.
  for (const auto& [id, thread] : threads_) {
    if (!thread.events.empty())
      latest = std::max(latest, scale.Ps(thread.events.front().begin) / 1000);
  }
  if (latest <= 0) return std::nullopt;
  return std::max<std::int64_t>(wanted - latest, 0);
}

std::uint64_t RecordedProgram::DeviceClockJumpNs() const {
  return Clock().jump_ns(Scale({}).ps_per_tick / 1000);
}

std::uint64_t RecordedProgram::lost() const {
  std::uint64_t lost = over_budget_ + file_.header()->without_ring.load(std::memory_order_relaxed) -
                       without_ring_before_;
  // What ends after the last drain began before recording stopped, and outside of the window.
  for (const wire::RingReader& reader : readers_) lost += reader.lost();
  if (device_reader_) lost += device_reader_->lost();
  return lost;
}

void RecordedProgram::Drain(std::uint64_t& budget) {
  const std::uint32_t rings =
      std::min(file_.header()->rings.load(std::memory_order_acquire), file_.most_rings());
  while (readers_.size() < rings) {
    const auto index = static_cast<std::uint32_t>(readers_.size());
    readers_.emplace_back(file_.ring(index), file_.data(index), file_.ring_words());
    if (from_ == From::kStart) readers_.back().SkipToStart();
    if (from_ == From::kOldest) wrapped_ = readers_.back().SkipToOldest() || wrapped_;
  }
  // Rings that are begun while we record are ours from their first record.
  from_ = From::kStart;
  for (wire::RingReader& reader : readers_) {
    reader.Drain([&](const wire::ScopeRecord& record) {
      const std::uint64_t cost = sizeof(Event) + record.text.size();
      if (cost > budget) {
        ++over_budget_;
        return;
      }
      budget -= cost;
      Thread& thread = threads_[reader.thread().id];
      if (thread.events.empty()) thread.name = reader.thread().name.data();
      thread.events.push_back({record.begin, record.end, thread.text.size(), record.text.size()});
      thread.text.append(record.text);
      ++kept_;
    });
  }
  DrainDevice(budget);
}

void RecordedProgram::DrainDevice(std::uint64_t& budget) {
  if (!device_reader_) return;
  device_reader_->DrainRecords(
      [&](wire::RecordType type, std::uint8_t, std::span<const std::uint64_t> payload) {
        const bool fits = device_.Add(type, payload, budget);
        if (wire::HasNumber(type)) ++(fits ? kept_ : over_budget_);
      });
}

std::string RecordedProgram::Label() const {
  return StrCat(file_.ProgramName(), " ", file_.header()->pid);
}

TickScale RecordedProgram::Scale(const TraceWindow& window) const {
  const wire::TickMoment end = wire::MonotonicMoment(kind_);
  const double ns_per_tick = end.ticks == begin_.ticks
                                 ? 1
                                 : static_cast<double>(end.other_ns - begin_.other_ns) /
                                       static_cast<double>(end.ticks - begin_.ticks);
  return {begin_.ticks,
          (static_cast<std::int64_t>(begin_.other_ns) + window.wall_minus_monotonic_ns -
           window.start_ns) *
              1000,
          ns_per_tick * 1000};
}

void RecordedProgram::Build(const TraceWindow& window, const std::string& label,
                            xplane::PlaneBuilder& host, DevicePlanes& devices) const {
  const TickScale scale = Scale(window);
  const std::int64_t window_ps = (window.stop_ns - window.start_ns) * 1000;
  const std::map<std::uint32_t, std::vector<HostCall>> calls =
      devices.Add({device_, Clock(), scale, label.empty() ? "" : StrCat("[", label, "]")});

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
        events.push_back({begin, end, nullptr,
                          std::string_view(thread->second.text).substr(event.text, event.size)});
      }
      Order(events);
    }
    if (const auto list = calls.find(id); list != calls.end()) AddCalls(list->second, events);
    host.BeginLine(id, StrCat(label, label.empty() ? "" : " ", name, "/", id), 0);
    for (const LineEvent& event : events) {
      const std::int64_t length = event.end_ps - event.begin_ps;
      if (event.call != nullptr) {
        host.AddEvent(host.EventId(event.call->name), event.begin_ps, length);
        if (event.call->correlation == 0) continue;
        host.AddEventStat(host.StatId("device_id"), std::uint64_t{event.call->device});
        host.AddEventStat(host.StatId("correlation_id"), event.call->correlation);
        host.AddEventStat(host.StatId("context_id"),
                          xplane::Ref{StrCat("$$", event.call->context)});
        continue;
      }
      const xplane::TraceMeText parsed = xplane::ParseTraceMe(event.text);
      host.AddEvent(host.EventId(parsed.name), event.begin_ps, length);
      for (const auto& [key, value] : parsed.args)
        host.AddEventStat(host.StatId(key), xplane::TypedValue(value));
    }
  }
}

}  // namespace strobe
