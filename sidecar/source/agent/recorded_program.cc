#include "sidecar/source/agent/recorded_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "collector/trace/xplane/trace_me_text.h"
#include "common/base/strings.h"
#include "common/text/utf8.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/source/agent/line_events.h"
#include "sidecar/source/base/monotonic_now.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe {
namespace {

constexpr std::uint64_t kAttendanceSlackNs = 1'000'000'000;

std::uint32_t CaptureWish(const wire::RingFile& file) {
  return file.header()->wishes[static_cast<std::size_t>(wire::Wisher::kCapture)].load();
}

}  // namespace

RecordedProgram::RecordedProgram(GuardedRings rings, From from, std::uint32_t level)
    : rings_(std::move(rings)),
      kind_(header().tick_kind == wire::TickKind::kCycles ? wire::TickKind::kCycles
                                                          : wire::TickKind::kMonotonicNs),
      begin_(wire::MonotonicMoment(kind_)),
      pid_(header().pid),
      born_ns_(std::min(header().born_ns, begin_.other_ns)),
      process_began_(header().process_began),
      rank_(RankIn(*file_.header())),
      label_(StrCat(CutUtf8(file_.ProgramName(), wire::kProgramBytes), " ", pid_)),
      forked_from_(file_.ForkedFrom()),
      on_since_birth_(from == From::kStart && CaptureWish(file_) == level),
      lived_(from == From::kStart || from == From::kEnded || file_.ProgramLives()),
      level_(level),
      from_(from),
      seen_ns_(static_cast<std::int64_t>(begin_.other_ns)),
      without_ring_before_(WithoutRing()) {
  OpenReaders(from);
}

// Rings that are created later belong to the capture from their first record.
void RecordedProgram::OpenReaders(From from) {
  const std::uint32_t rings =
      std::min(header().rings.load(std::memory_order_acquire), file_.max_rings());
  while (readers_.size() < rings) {
    const auto index = static_cast<std::uint32_t>(readers_.size());
    readers_.emplace_back(file_.ring(index), file_.data(index), file_.ring_words());
    if (from != From::kStart) {
      dropped_before_ += readers_.back().dropped();
      cut_before_ += readers_.back().cut();
    }
    if (from == From::kStart) readers_.back().SkipToStart();
    if (from == From::kOldest || from == From::kEnded)
      wrapped_ = readers_.back().SkipToOldest() || wrapped_;
  }
}

void RecordedProgram::SwitchOn(std::uint32_t filter) {
  if (settled_ || ended_before()) return;
  on_ = true;
  header().filter.store(filter, std::memory_order_relaxed);
  file_.Wish(wire::Wisher::kCapture, level_);
  // Reads the clock after switching on: if the sidecar is suspended in between, it claims less
  // time, not more.
  on_ns_ = on_since_birth_ ? static_cast<std::int64_t>(born_ns_) : MonotonicNow();
  off_ns_ = on_ns_;
}

void RecordedProgram::CheckOn() {
  if (!on_ || settled_) return;
  // Reads the clock before the control word: annotations were on at least at that time.
  const std::int64_t now = MonotonicNow();
  on_ = CaptureWish(file_) == level_ && header().control.load(std::memory_order_relaxed) >= level_;
  if (on_) off_ns_ = now;
}

void RecordedProgram::SwitchOff() {
  if (settled_) return;
  CheckOn();
  if (std::exchange(on_, false)) {
    made_at_off_.clear();
    for (const wire::RingReader& reader : readers_) made_at_off_.push_back(reader.made());
  }
  file_.Wish(wire::Wisher::kCapture, 0);
  header().filter.store(~0u, std::memory_order_relaxed);
  if (std::exchange(attended_, false)) header().attend_until.store(0, std::memory_order_relaxed);
  devices_.Disarm();
  file_.WakeProgram();
}

void RecordedProgram::ArmDevice(Nanos most, const FrameworkPorts& framework_ports,
                                std::int64_t since_ns) {
  using Before = RecordedDevices::Before;
  devices_.Arm({.before = from_ == From::kStart    ? Before::kAll
                          : from_ == From::kOldest ? Before::kHeld
                                                   : Before::kNothing,
                .most = most,
                .framework_ports = framework_ports,
                .since_ns = since_ns});
}

void RecordedProgram::TellRecorder(std::string_view recorder) {
  const std::string text = CutUtf8(recorder, wire::kRecorderBytes);
  std::memset(header().recorder, 0, wire::kRecorderBytes);
  std::memcpy(header().recorder, text.data(), text.size());
}

void RecordedProgram::AskAttendance(std::uint64_t until_ns) {
  // The job guard may have requested it already, for a longer time.
  if (header().attend_until.load(std::memory_order_relaxed) >= until_ns - kAttendanceSlackNs)
    return;
  header().attend_until.store(until_ns, std::memory_order_relaxed);
  attended_ = true;
}

bool RecordedProgram::Lives() {
  if (settled_) return false;
  const std::int64_t now = MonotonicNow();
  const bool lives = file_.ProgramLives();
  if (lives) seen_ns_ = now;
  if (!lives && gone_ns_ == 0) gone_ns_ = MonotonicNow();
  return lives;
}

void RecordedProgram::Settle(bool parent_lives, bool keep, wire::RecordBuffer& buffer,
                             std::uint64_t& budget) {
  if (settled_) return;
  Drain(buffer, budget);
  CountUnseen();
  settled_ = Facts();
  settled_->parent_lives = parent_lives;
  if (!file_.HasHeirs() && !keep) unlink(file_.path().c_str());
  readers_.clear();
  devices_.Close();
  rings_ = {};
}

ProgramFacts RecordedProgram::Facts() {
  if (settled_) return *settled_;
  const wire::FileHeader& from = header();
  ProgramFacts facts{.label = label_,
                     .born_ns = static_cast<std::int64_t>(born_ns_),
                     .on_ns = on_ns_,
                     .off_ns = off_ns_,
                     .lives = Lives(),
                     .seen_ns = seen_ns_,
                     .gone_ns = gone_ns_,
                     .ended_before = ended_before(),
                     .last_record_ns = ended_before() ? LastRecordNs() : 0,
                     .ever_recorded = from.rings.load(std::memory_order_relaxed) > 0,
                     .file_damaged = rings_.guard.damaged(),
                     .kept = kept(),
                     .lost = lost(),
                     .cut = Cut(),
                     .device = devices_.status()};
  facts.tick_jump_ns = Timeline().jump_ns();
  facts.device.mistimed = devices_.activity().MistimedKernels();
  facts.device.cut_names = devices_.activity().CutNames();
  facts.ended_cleanly = !facts.lives && from.has_exited.load(std::memory_order_acquire) != 0;
  // It ended after it was last seen to run, whatever its header contains.
  facts.ended_ns =
      std::clamp(static_cast<std::int64_t>(from.ended_ns.load(std::memory_order_relaxed)), on_ns_,
                 MonotonicNow());
  facts.rings_damaged =
      std::any_of(readers_.begin(), readers_.end(),
                  [](const wire::RingReader& reader) { return reader.damaged(); }) ||
      devices_.damaged();
  facts.cuda_since_ns =
      static_cast<std::int64_t>(from.cuda_since_ns.load(std::memory_order_relaxed));
  if (const auto first = devices_.first_ticks()) {
    facts.device_began_ns = MonotonicOf(*first);
    facts.device_ended_ns = MonotonicOf(devices_.last_ticks());
  }
  return facts;
}

std::optional<std::int64_t> RecordedProgram::KeptOnly(const TraceSpan& span) const {
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  if (wanted == 0 || !wrapped_) return std::nullopt;
  const TickScale scale = Scale(span);
  std::int64_t latest = 0;  // The latest of the threads' first events.
  for (const auto& [id, thread] : threads_) {
    if (!thread.events.empty())
      latest = std::max(latest, scale.Ps(thread.events.front().begin) / 1000);
  }
  if (latest <= 0) return std::nullopt;
  return std::max<std::int64_t>(wanted - latest, 0);
}

std::int64_t RecordedProgram::LastRecordNs() const {
  std::optional<std::uint64_t> last;
  for (const auto& [id, thread] : threads_) {
    for (const Event& event : thread.events) last = std::max(last.value_or(event.end), event.end);
  }
  const DeviceClock clock = devices_.clock();
  std::int64_t last_ns = 0;
  for (const wire::KernelRecord& kernel : devices_.activity().kernels) {
    // What was still running when recording ended has no end.
    if (!clock.is_known() || kernel.end < kernel.begin) continue;
    const std::int64_t end = MonotonicOf(clock.Ticks(kernel.end));
    last_ns = std::max(last_ns, std::min(end, static_cast<std::int64_t>(begin_.other_ns)));
  }
  if (last) last_ns = std::max(last_ns, MonotonicOf(*last));
  return last_ns;
}

std::optional<std::int64_t> RecordedProgram::ReachedBack(const TraceSpan& span,
                                                         std::int64_t since_ns) const {
  if (from_ == From::kStart) return std::nullopt;
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  const std::int64_t since = std::max(static_cast<std::int64_t>(born_ns_), since_ns);
  const std::int64_t recorded = std::clamp<std::int64_t>(span.recording_ns - since, 0, wanted);
  return std::min(recorded, KeptOnly(span).value_or(recorded));
}

std::optional<std::int64_t> RecordedProgram::DevicesReachedBack(const TraceSpan& span) const {
  const std::optional<std::uint64_t> first = devices_.first_ticks();
  if (from_ == From::kStart || ended_before() || !first) return std::nullopt;
  // Whatever ended after the first moment that the ring still has is in the ring too.
  const std::int64_t since = MonotonicOf(*first);
  return std::clamp<std::int64_t>(span.recording_ns - since, 0, span.recording_ns - span.start_ns);
}

std::uint64_t RecordedProgram::DeviceClockJumpNs() const {
  return devices_.clock().jump_ns(Timeline().ns_per_tick());
}

std::uint64_t RecordedProgram::WithoutRing() const {
  std::uint64_t records = 0;
  for (const wire::StripedCounter& stripe : header().without_ring)
    records += stripe.value.load(std::memory_order_relaxed);
  return records;
}

std::uint64_t RecordedProgram::lost() const {
  if (settled_) return settled_->lost;
  std::uint64_t lost =
      over_budget_ + unseen_ + devices_.lost() + WithoutRing() - without_ring_before_;
  std::uint64_t dropped = 0;
  // Events that end after the last drain are outside of the window.
  for (const wire::RingReader& reader : readers_) {
    lost += reader.lost();
    dropped += reader.dropped();
  }
  return lost + dropped - dropped_before_;
}

std::uint64_t RecordedProgram::Cut() const {
  std::uint64_t cut = 0;
  for (const wire::RingReader& reader : readers_) cut += reader.cut();
  return cut - std::min(cut, cut_before_);
}

void RecordedProgram::CountUnseen() {
  if (settled_) return;
  unseen_ = 0;
  const bool lives = Lives();
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const wire::RingReader& reader = readers_[i];
    // Scopes that end after the recording are outside of the window.
    const std::uint64_t made = !lives                    ? reader.made()
                               : i < made_at_off_.size() ? made_at_off_[i]
                                                         : 0;
    // A writer that was killed may have counted a record that it did not complete.
    const std::uint64_t unseen = reader.unseen(made), allowed = lives ? 0 : 1;
    if (unseen > allowed && !reader.damaged()) unseen_ += unseen;
  }
}

double RecordedProgram::Drain(wire::RecordBuffer& buffer, std::uint64_t& budget) {
  if (settled_) return 0;
  CheckOn();
  OpenReaders(From::kStart);
  timeline_.Note(wire::MonotonicMoment(kind_));
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
  return std::max(filled, devices_.Drain(buffer, budget, [this](std::uint64_t ticks) {
    return MonotonicOf(ticks);
  }));
}

TickTimeline RecordedProgram::Timeline() const {
  TickTimeline timeline = timeline_;
  timeline.Note(wire::MonotonicMoment(kind_));
  return timeline;
}

TickScale RecordedProgram::Scale(const TraceSpan& span) const {
  return Timeline().Scale(span.start_ns);
}

std::int64_t RecordedProgram::MonotonicOf(std::uint64_t ticks) const {
  const auto begin_ns = static_cast<std::int64_t>(begin_.other_ns);
  // Limits forged times to a day around the capture.
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  return begin_ns +
         std::clamp<std::int64_t>(Timeline().Scale(begin_ns).Ps(ticks) / 1000, -kDayNs, kDayNs);
}

void RecordedProgram::AddSteps(std::int64_t wall_minus_monotonic_ns,
                               std::vector<v1::StepPace>& told) const {
  if (!settled_ && !ended_before())
    AddReportedSteps(header().step_loops, ReportedByAgent(label_), wall_minus_monotonic_ns, told);
}

std::optional<RecordedProgram::StepTimes> RecordedProgram::TimesOfSteps(
    std::string_view loop, std::int64_t first, std::int64_t last, const TraceSpan& span) const {
  const TickScale scale = Scale(span);
  const auto monotonic = [&](std::uint64_t ticks) {
    return span.start_ns + scale.Ps(ticks) / 1000;
  };
  std::optional<StepTimes> times;
  for (const auto& [id, thread] : threads_) {
    for (const Event& event : thread.events) {
      const auto step = StepOf(std::string_view(thread.text).substr(event.text, event.size));
      if (!step || !step->number || !session::IsLoop(step->loop, loop) || *step->number < first ||
          *step->number > last)
        continue;
      const StepTimes found{monotonic(event.begin), monotonic(event.end)};
      if (!times) times = found;
      times->begin_ns = std::min(times->begin_ns, found.begin_ns);
      times->end_ns = std::max(times->end_ns, found.end_ns);
    }
  }
  return times;
}

void RecordedProgram::Build(const TraceSpan& span, const std::string& label,
                            xplane::PlaneBuilder& host, DevicePlanes& devices) const {
  const TickScale scale = Scale(span);
  const std::int64_t window_ps = (span.stop_ns - span.start_ns) * 1000;
  const std::map<std::uint32_t, std::vector<HostCall>> calls = devices.Add(
      {devices_.activity(), devices_.clock(), scale, label.empty() ? "" : StrCat("[", label, "]")});

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
