#include "sidecar/source/agent/program_records.h"

#include <algorithm>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

wire::TickKind TicksOf(const wire::RingFile& file) {
  return file.header()->tick_kind == wire::TickKind::kCycles ? wire::TickKind::kCycles
                                                             : wire::TickKind::kMonotonicNs;
}

}  // namespace

std::int64_t ProgramClock::MonotonicOf(std::uint64_t ticks) const {
  const auto begin_ns = static_cast<std::int64_t>(begin_.other_ns);
  constexpr std::int64_t kDayNs = 86'400'000'000'000;
  return begin_ns + std::clamp<std::int64_t>(Scale(begin_ns).Ps(ticks) / 1000, -kDayNs, kDayNs);
}

ProgramRecords::ProgramRecords(const wire::RingFile& file, RecordsFrom from, std::uint32_t level)
    : from_(from),
      clock_(TicksOf(file)),
      scopes_(file, from, level),
      devices_(file),
      collectives_(file.path(), from != RecordsFrom::kNow) {}

void ProgramRecords::ArmDevice(Nanos most, const FrameworkPorts& framework_ports,
                               std::int64_t since_ns, std::uint32_t mode) {
  using Before = RecordedDevices::Before;
  devices_.Arm({.before = from_ == RecordsFrom::kStart    ? Before::kAll
                          : from_ == RecordsFrom::kOldest ? Before::kHeld
                                                          : Before::kNothing,
                .most = most,
                .mode = mode,
                .framework_ports = framework_ports,
                .since_ns = since_ns});
}

void ProgramRecords::Disarm() {
  collectives_.RequestDeviceTimes(0);
  devices_.Disarm();
}

double ProgramRecords::Drain(bool is_on, wire::RecordBuffer& buffer, std::uint64_t& budget) {
  clock_.Note();
  // The request ends by itself if the sidecar dies.
  constexpr std::uint64_t kTimesLastNs = 2'000'000'000;
  if (is_on) collectives_.RequestDeviceTimes(wire::MonotonicNs() + kTimesLastNs);
  collectives_.Drain(budget);
  const double filled = scopes_.Drain(buffer, budget);
  return std::max(filled, devices_.Drain(buffer, budget, [this](std::uint64_t ticks) {
    return clock_.MonotonicOf(ticks);
  }));
}

void ProgramRecords::AddTo(ProgramFacts& facts) const {
  if (from_ == RecordsFrom::kEnded) facts.last_record_ns = LastRecordNs();
  facts.kept = kept();
  facts.lost = scopes_.lost() + devices_.lost() + collectives_.activity().lost;
  facts.cut = scopes_.cut();
  facts.collectives_without_entry = collectives_.activity().WithoutEntry();
  facts.tick_jump_ns = clock_.Timeline().jump_ns();
  facts.device = devices_.status();
  facts.device.mistimed = devices_.activity().MistimedKernels();
  facts.device.cut_names = devices_.activity().CutNames();
  facts.rings_damaged = scopes_.damaged() || devices_.damaged();
  if (const auto first = devices_.first_ticks()) {
    facts.device_began_ns = clock_.MonotonicOf(*first);
    facts.device_ended_ns = clock_.MonotonicOf(devices_.last_ticks());
  }
}

void ProgramRecords::Close() {
  scopes_.Close();
  devices_.Close();
  collectives_.Close();
}

std::optional<std::int64_t> ProgramRecords::KeptOnly(const TraceSpan& span) const {
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  if (wanted == 0 || !scopes_.wrapped()) return std::nullopt;
  const std::int64_t latest = scopes_.LatestFirstNs(clock_.Scale(span.start_ns));
  if (latest <= 0) return std::nullopt;
  return std::max<std::int64_t>(wanted - latest, 0);
}

std::int64_t ProgramRecords::LastRecordNs() const {
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

std::optional<std::int64_t> ProgramRecords::ReachedBack(const TraceSpan& span,
                                                        std::int64_t since_ns) const {
  if (from_ == RecordsFrom::kStart) return std::nullopt;
  const std::int64_t wanted = span.recording_ns - span.start_ns;
  const std::int64_t recorded = std::clamp<std::int64_t>(span.recording_ns - since_ns, 0, wanted);
  return std::min(recorded, KeptOnly(span).value_or(recorded));
}

std::optional<std::int64_t> ProgramRecords::DevicesReachedBack(const TraceSpan& span) const {
  const std::optional<std::uint64_t> first = devices_.first_ticks();
  if (from_ == RecordsFrom::kStart || from_ == RecordsFrom::kEnded || !first) return std::nullopt;
  // Whatever ended after the first moment that the ring still has is in the ring too.
  const std::int64_t since = clock_.MonotonicOf(*first);
  return std::clamp<std::int64_t>(span.recording_ns - since, 0, span.recording_ns - span.start_ns);
}

std::uint64_t ProgramRecords::DeviceClockJumpNs() const {
  return devices_.clock().jump_ns(clock_.Timeline().ns_per_tick());
}

std::optional<ProgramRecords::StepTimes> ProgramRecords::TimesOfSteps(std::string_view loop,
                                                                      std::int64_t first,
                                                                      std::int64_t last,
                                                                      const TraceSpan& span) const {
  std::optional<StepTimes> times =
      scopes_.TimesOfSteps(loop, first, last, clock_.Scale(span.start_ns));
  if (!times) return std::nullopt;
  return StepTimes{span.start_ns + times->begin_ns, span.start_ns + times->end_ns};
}

void ProgramRecords::Build(const TraceSpan& span, const std::string& label,
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
