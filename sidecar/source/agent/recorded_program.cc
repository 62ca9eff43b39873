#include "sidecar/source/agent/recorded_program.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {
namespace {

wire::TickKind TicksOf(const wire::RingFile& file) {
  return file.header()->tick_kind == wire::TickKind::kCycles ? wire::TickKind::kCycles
                                                             : wire::TickKind::kMonotonicNs;
}

ProgramIdentity IdentityOf(const wire::RingFile& file, std::uint64_t now_ns) {
  const wire::FileHeader& header = *file.header();
  const std::uint32_t pid = header.pid;
  return {.pid = pid,
          .born_ns = std::min(header.born_ns, now_ns),
          .process_began = header.process_began,
          .label = StrCat(CutUtf8(file.ProgramName(), wire::kProgramBytes), " ", pid),
          .forked_from = file.ForkedFrom()};
}

}  // namespace

std::int64_t ProgramClock::MonotonicOf(std::uint64_t ticks) const {
  const auto begin_ns = static_cast<std::int64_t>(begin_.other_ns);
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  return begin_ns + std::clamp<std::int64_t>(Scale(begin_ns).Ps(ticks) / 1000, -kDayNs, kDayNs);
}

RecordedProgram::RecordedProgram(GuardedRings rings, From from, std::uint32_t level)
    : rings_(std::move(rings)),
      clock_(TicksOf(file_)),
      identity_(IdentityOf(file_, clock_.begin_ns())),
      rank_(RankIn(*file_.header())),
      on_since_birth_(from == From::kStart && CaptureWish(file_) == level),
      lived_(from == From::kStart || from == From::kEnded || file_.ProgramLives()),
      from_(from),
      seen_ns_(static_cast<std::int64_t>(clock_.begin_ns())),
      switch_(file_, level),
      scopes_(file_, from, level) {}

void RecordedProgram::SwitchOn(std::uint32_t filter) {
  if (settled_ || from_ == From::kEnded) return;
  std::optional<std::int64_t> since_ns;
  if (on_since_birth_) since_ns = static_cast<std::int64_t>(identity_.born_ns);
  switch_.On(filter, since_ns);
}

void RecordedProgram::SwitchOff() {
  if (settled_) return;
  switch_.Check();
  if (switch_.is_on()) scopes_.NoteEnd();
  switch_.Off();
  collectives_.RequestDeviceTimes(0);
  devices_.Disarm();
  file_.WakeProgram();
}

void RecordedProgram::ArmDevice(Nanos most, const FrameworkPorts& framework_ports,
                                std::int64_t since_ns, std::uint32_t mode) {
  using Before = RecordedDevices::Before;
  devices_.Arm({.before = from_ == From::kStart    ? Before::kAll
                          : from_ == From::kOldest ? Before::kHeld
                                                   : Before::kNothing,
                .most = most,
                .mode = mode,
                .framework_ports = framework_ports,
                .since_ns = since_ns});
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
  if (!file_.HasHeirs() && !keep) RemoveRings(file_.path());
  scopes_.Close();
  devices_.Close();
  collectives_.Close();
  rings_ = {};
}

ProgramFacts RecordedProgram::Facts() {
  if (settled_) return *settled_;
  const wire::FileHeader& from = header();
  ProgramFacts facts{.label = identity_.label,
                     .born_ns = static_cast<std::int64_t>(identity_.born_ns),
                     .on_ns = switch_.on_ns(),
                     .off_ns = switch_.off_ns(),
                     .lives = Lives(),
                     .seen_ns = seen_ns_,
                     .gone_ns = gone_ns_,
                     .ended_before = from_ == From::kEnded,
                     .last_record_ns = from_ == From::kEnded ? LastRecordNs() : 0,
                     .ever_recorded = from.rings.load(std::memory_order_relaxed) > 0,
                     .file_damaged = rings_.guard.damaged(),
                     .kept = kept(),
                     .lost = lost(),
                     .cut = scopes_.cut(),
                     .collectives_without_entry = collectives_.activity().WithoutEntry(),
                     .device = devices_.status()};
  facts.tick_jump_ns = clock_.Timeline().jump_ns();
  facts.device.mistimed = devices_.activity().MistimedKernels();
  facts.device.cut_names = devices_.activity().CutNames();
  facts.ended_cleanly = !facts.lives && from.has_exited.load(std::memory_order_acquire) != 0;
  // It ended after it was last seen to run, whatever its header contains.
  facts.ended_ns =
      std::clamp(static_cast<std::int64_t>(from.ended_ns.load(std::memory_order_relaxed)),
                 switch_.on_ns(), MonotonicNow());
  facts.rings_damaged = scopes_.damaged() || devices_.damaged();
  facts.cuda_since_ns =
      static_cast<std::int64_t>(from.cuda_since_ns.load(std::memory_order_relaxed));
  if (const auto first = devices_.first_ticks()) {
    facts.device_began_ns = clock_.MonotonicOf(*first);
    facts.device_ended_ns = clock_.MonotonicOf(devices_.last_ticks());
  }
  return facts;
}

std::optional<std::int64_t> RecordedProgram::KeptOnly(const TraceSpan& span) const {
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  if (wanted == 0 || !scopes_.wrapped()) return std::nullopt;
  const std::int64_t latest = scopes_.LatestFirstNs(clock_.Scale(span.start_ns));
  if (latest <= 0) return std::nullopt;
  return std::max<std::int64_t>(wanted - latest, 0);
}

std::int64_t RecordedProgram::LastRecordNs() const {
  const DeviceClock clock = devices_.clock();
  std::int64_t last_ns = 0;
  for (const wire::KernelRecord& kernel : devices_.activity().kernels) {
    // What was still running when recording ended has no end.
    if (!clock.is_known() || kernel.end < kernel.begin) continue;
    const std::int64_t end = clock_.MonotonicOf(clock.Ticks(kernel.end));
    last_ns = std::max(last_ns, std::min(end, static_cast<std::int64_t>(clock_.begin_ns())));
  }
  if (const auto last = scopes_.last_ticks())
    last_ns = std::max(last_ns, clock_.MonotonicOf(*last));
  return last_ns;
}

std::optional<std::int64_t> RecordedProgram::ReachedBack(const TraceSpan& span,
                                                         std::int64_t since_ns) const {
  if (from_ == From::kStart) return std::nullopt;
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  const std::int64_t since = std::max(static_cast<std::int64_t>(identity_.born_ns), since_ns);
  const std::int64_t recorded = std::clamp<std::int64_t>(span.recording_ns - since, 0, wanted);
  return std::min(recorded, KeptOnly(span).value_or(recorded));
}

std::optional<std::int64_t> RecordedProgram::DevicesReachedBack(const TraceSpan& span) const {
  const std::optional<std::uint64_t> first = devices_.first_ticks();
  if (from_ == From::kStart || from_ == From::kEnded || !first) return std::nullopt;
  // Whatever ended after the first moment that the ring still has is in the ring too.
  const std::int64_t since = clock_.MonotonicOf(*first);
  return std::clamp<std::int64_t>(span.recording_ns - since, 0, span.recording_ns - span.start_ns);
}

std::uint64_t RecordedProgram::DeviceClockJumpNs() const {
  return devices_.clock().jump_ns(clock_.Timeline().ns_per_tick());
}

std::uint64_t RecordedProgram::lost() const {
  return settled_ ? settled_->lost
                  : scopes_.lost() + devices_.lost() + collectives_.activity().lost;
}

void RecordedProgram::CountUnseen() {
  if (!settled_) scopes_.CountUnseen(Lives());
}

double RecordedProgram::Drain(wire::RecordBuffer& buffer, std::uint64_t& budget) {
  if (settled_) return 0;
  switch_.Check();
  clock_.Note();
  // The request ends by itself if the sidecar dies.
  constexpr std::uint64_t kTimesLastNs = 2'000'000'000;
  if (switch_.is_on()) collectives_.RequestDeviceTimes(wire::MonotonicNs() + kTimesLastNs);
  collectives_.Drain(budget);
  const double filled = scopes_.Drain(buffer, budget);
  return std::max(filled, devices_.Drain(buffer, budget, [this](std::uint64_t ticks) {
    return clock_.MonotonicOf(ticks);
  }));
}

void RecordedProgram::AddSteps(std::int64_t wall_minus_monotonic_ns,
                               std::vector<v1::StepPace>& told) const {
  if (!settled_ && from_ != From::kEnded)
    AddReportedSteps(header().step_loops, ReportedByAgent(identity_.label), wall_minus_monotonic_ns,
                     told);
}

std::optional<RecordedProgram::StepTimes> RecordedProgram::TimesOfSteps(
    std::string_view loop, std::int64_t first, std::int64_t last, const TraceSpan& span) const {
  std::optional<StepTimes> times =
      scopes_.TimesOfSteps(loop, first, last, clock_.Scale(span.start_ns));
  if (!times) return std::nullopt;
  return StepTimes{span.start_ns + times->begin_ns, span.start_ns + times->end_ns};
}

void RecordedProgram::Build(const TraceSpan& span, const std::string& label,
                            xplane::PlaneBuilder& host, DevicePlanes& devices) const {
  const TickScale scale = clock_.Scale(span.start_ns);
  const std::string shown = label.empty() ? "" : StrCat("[", label, "]");
  const auto calls = devices.Add({devices_.activity(), devices_.clock(), scale, shown});
  devices.AddCollectives({.activity = collectives_.activity(),
                          .scale = scale,
                          .start_ns = span.start_ns,
                          .label = shown});
  scopes_.Build(scale, (span.stop_ns - span.start_ns) * 1000, label, calls, host);
}

}  // namespace strobe::source
