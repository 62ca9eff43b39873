#include "sidecar/source/agent/agent_source.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "agent/wire/ticks.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/clock_steps.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/device_mode.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/capture/trace_report.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/base/memory_headroom.h"
#include "sidecar/source/base/process_reports.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/base/reported_steps.h"
#include "sidecar/source/device/device_planes.h"

namespace strobe::source {
namespace {

using session::Recording;
using std::chrono::milliseconds;

// Programs read the control word with their next scope. CUPTI needs longer to start.
constexpr Nanos kAnnotationLead = milliseconds(20);
constexpr Nanos kDeviceLead = milliseconds(1000);
// The flight recorder records a program's devices at the latest this long after CUDA has started.
constexpr Nanos kDevicesSettled = milliseconds(10'000);
// How long after the end to wait for a program's last device records.
constexpr Nanos kDeviceGrace = milliseconds(5000);
// How often to drain rings: each time costs the machine some 30 us, but a thread that does nothing
// else fills a ring in a few milliseconds. While rings stay nearly empty, the pause doubles.
constexpr Nanos kDrainEvery = milliseconds(2), kCalmDrain = milliseconds(8),
                kQuietDrain = milliseconds(16);
constexpr double kCalmFill = 1.0 / 16, kQuietFill = 1.0 / 256;

// `filled` tells how full the fullest ring was after the last pause.
Nanos PauseAfter(Nanos last, double filled) {
  if (filled > kCalmFill) return kDrainEvery;
  return std::min(2 * last, filled > kQuietFill ? kCalmDrain : kQuietDrain);
}

// How often to look for programs that have just started, which follow the orders until they are
// found. While there is no program, the thread wakes for nothing else: the threads of other workers
// start at the same instant, and each useless wake-up delays them.
constexpr Nanos kFindNewbornEvery = milliseconds(100);

// See FileHeader::device_mode.
std::uint32_t DeviceModeOf(const v1::Tracers& tracers) {
  const auto mode = static_cast<std::uint32_t>(AgentsMode(tracers.device()));
  return mode | (tracers.detach() ? std::uint32_t{wire::kDetachAfterwards} : 0u);
}

// Encodes the plane that describes the trace itself.
std::string Environment(const TraceSpan& span, std::int64_t started_ns, std::int64_t stopped_ns,
                        const CaptureTimes& times) {
  const auto wall = [&](std::int64_t ns) { return static_cast<std::uint64_t>(times.Wall(ns)); };
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, wall(span.start_ns));
  environment.AddPlaneStat(xplane::kRecordingStart, wall(started_ns));
  environment.AddPlaneStat(xplane::kProfileStop, wall(stopped_ns));
  return environment.Encode();
}

}  // namespace

AgentSource::AgentSource(const Clock& clock, const AgentDirectory& directory, AgentOptions options)
    : clock_(clock), directory_(directory), options_(options), began_ns_(MonotonicNow()) {}

std::vector<v1::Source> AgentSource::Probe(Nanos) {
  std::size_t living = 0, ended = 0;
  const AnnouncedRanks places = PlacesOf(Announced());
  std::vector<Rank> ranks;
  for (const std::string& path : RingFiles(directory_.path())) {
    OpenedRings opened = OpenRings(path);
    if (directory_.RemoveIfDead(opened)) continue;
    if (directory_.keeps_ended() && WasKilled(opened)) ++ended;
    // A forked child that has not recorded yet uses its parent's file.
    if (opened.error != wire::RingFileError::kNone ||
        !(opened.lives || opened.rings.file.HasHeirs()))
      continue;
    ++living;
    ranks.push_back(PlaceIn(*opened.rings.file.header(), places));
  }
  v1::Source source;
  source.set_kind(v1::SOURCE_AGENT);
  source.set_address(directory_.path());
  source.set_ready(living > 0);
  source.set_ended_programs(static_cast<std::uint32_t>(ended));
  for (const RankGroup& group : GroupByRank({}, ranks)) {
    if (group.rank) *source.add_ranks() = *group.rank;
  }
  if (living == 0) {
    const std::vector<FailedProgram> failures = directory_.Failures(wire::MonotonicNs());
    source.set_detail(failures.empty()
                          ? "no program with the agent runs"
                          : StrCat(failures.front().label, ": ", failures.front().message));
  }
  return {source};
}

Nanos AgentSource::lead() const {
  for (const std::string& path : RingFiles(directory_.path())) {
    const OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || !opened.lives) continue;
    const wire::FileHeader& header = *opened.rings.file.header();
    if (header.uses_cuda.load() != 0 && header.device_refusal.load() == 0) return kDeviceLead;
  }
  return kAnnotationLead;
}

std::vector<v1::StepPace> AgentSource::Steps() {
  const std::int64_t offset = WallLessMonotonic(clock_).count();
  std::vector<v1::StepPace> told;
  for (const std::string& path : RingFiles(directory_.path())) {
    const OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || !opened.lives ||
        !directory_.Concerns(opened.rings.file, /*forked_from_ours=*/false))
      continue;
    const wire::RingFile& file = opened.rings.file;
    const std::string name = CutUtf8(file.ProgramName(), wire::kProgramBytes);
    AddReportedSteps(file.header()->step_loops, ReportedByAgent(StrCat(name, " ", opened.pid)),
                     offset, told);
  }
  return told;
}

// A guest serves one process and its descendants, and leaves announcements to the owner.
std::vector<Announcement> AgentSource::Announced() const {
  if (!directory_.is_owner()) return {};
  return ReadAnnouncements(directory_.path());
}

Nanos AgentSource::LookBack(const v1::CapturePlan& plan) const {
  return plan.look_back_ns() > 0 ? Nanos{plan.look_back_ns()} : options_.look_back;
}

// Converts the plan's times to the monotonic clock, because the wall clock may be set during the
// window.
CaptureTimes AgentSource::TimesOf(const v1::CapturePlan& plan) const {
  const std::int64_t offset = session::StepsSince(clock_, plan).wall_less_monotonic().count();
  const std::int64_t instant = plan.instant_ns() - offset;
  const bool by_steps = plan.steps() > 0;
  const std::int64_t end = by_steps ? plan.steps_by_ns() - offset : instant + plan.duration_ns();
  return {.start_ns = instant - plan.guard_ns(),
          .stop_ns = by_steps ? end : end + plan.guard_ns(),
          .instant_ns = instant,
          .end_ns = end,
          .wall_minus_monotonic_ns = offset};
}

ProgramWishes AgentSource::WishesOf(const v1::CapturePlan& plan, const CaptureTimes& times) const {
  std::optional<std::int64_t> look_back_to_ns;
  if (LookBack(plan) > Nanos{0} && recorded_before())
    look_back_to_ns = times.start_ns - LookBack(plan).count();
  const std::vector<Announcement> announced = Announced();
  std::set<std::string> framework_processes;
  if (plan.source() != v1::SOURCE_AGENT) {
    for (const Announcement& process : InprocTargets(plan, announced))
      framework_processes.insert(process.process());
  }
  std::set<std::string> beside_kineto;
  for (const Announcement& process : announced) {
    if (LeftToAgent(plan, process)) beside_kineto.insert(process.process());
  }
  return {.recorder = StrCat("capture ", plan.capture_id(), " of ", plan.request()),
          .container = plan.container(),
          .wants = [&plan](const Rank& rank) { return IsWanted(plan, rank); },
          .announced_ranks = PlacesOf(announced),
          .level = plan.tracers().host(),
          .filter = plan.tracers().host_filter() == 0 ? ~0u : plan.tracers().host_filter(),
          .idle_level = options_.idle_level,
          .devices = plan.tracers().device() > 0,
          .device_mode = DeviceModeOf(plan.tracers()),
          .beside_kineto = std::move(beside_kineto),
          .framework_processes = std::move(framework_processes),
          .look_back_to_ns = look_back_to_ns,
          .ended_programs = plan.look_back_ns() > 0 && directory_.keeps_ended(),
          .framework_ports =
              PortsOf({plan.framework_servers().begin(), plan.framework_servers().end()}),
          .attend_until_ns = static_cast<std::uint64_t>(
              std::max(plan.deadline_ns() - times.wall_minus_monotonic_ns, times.stop_ns))};
}

bool AgentSource::RecordUntilEnd(const v1::CapturePlan& plan, const Cancellation& cancel,
                                 const Cancellation& terminate, CaptureTimes& times,
                                 ProgramSet& programs, std::uint64_t& budget) const {
  const auto device_time = [&] { return Nanos{times.stop_ns - MonotonicNow()} + kDeviceGrace; };
  programs.Find(device_time());
  if (plan.steps() > 0) programs.NoteCounting(plan.step_loop());
  std::int64_t found = MonotonicNow();
  bool on = false, stepping = false;
  Nanos drain_every = kDrainEvery;
  const auto stop_now = [&] {
    times.stop_ns = std::min(times.stop_ns, MonotonicNow());
    times.end_ns = std::min(times.end_ns, times.stop_ns);
  };
  const auto progress_now = [&] {
    return session::ProgressOf(plan, programs.Steps(times.wall_minus_monotonic_ns),
                               FromUnixNanos(times.Wall(MonotonicNow())));
  };
  // All programs that told steps of the loop have ended the last one, or have ended themselves.
  const auto steps_ended = [&] {
    if (plan.steps() == 0) return false;
    const session::StepProgress progress = progress_now();
    stepping = stepping || progress.processes > 0;
    return stepping && (progress.finished || progress.processes == 0);
  };
  // The first step may come before the time at which it was expected.
  const auto step_is_near = [&] {
    if (plan.steps() == 0) return false;
    const session::StepProgress progress = progress_now();
    const Nanos until =
        progress.earliest - FromUnixNanos(times.Wall(MonotonicNow())) - Nanos{plan.guard_ns()};
    return progress.processes > 0 && until <= kAnnotationLead;
  };
  while (!cancel.cancelled() && MonotonicNow() < times.stop_ns) {
    const bool due = Nanos{times.start_ns - MonotonicNow()} <= kAnnotationLead;
    if (!on && (due || step_is_near())) {
      on = true;
      if (!due) times.start_ns = MonotonicNow();
      programs.SwitchOn();
      // Finds programs that started after the last search but before the orders were written.
      programs.Find(device_time());
      found = MonotonicNow();
      drain_every = kDrainEvery / 2;  // It is doubled below.
    }
    const double filled = programs.Drain(budget);
    drain_every = PauseAfter(drain_every, filled);
    if (MonotonicNow() - found > kFindNewbornEvery.count()) {
      programs.Find(device_time());
      programs.Settle(budget);
      found = MonotonicNow();
    }
    if (terminate.cancelled() || steps_ended()) stop_now();
    const std::int64_t next = on ? times.stop_ns : times.start_ns - kAnnotationLead.count();
    cancel.WaitFor(std::clamp<Nanos>(Nanos{next - MonotonicNow()}, Nanos{0},
                                     programs.empty() ? kFindNewbornEvery : drain_every));
  }
  programs.SwitchOff();
  return stepping;
}

// Recording begins before the first step and ends after the last one. Cuts the trace to these steps
// and the guard around them.
void AgentSource::CutToSteps(const v1::CapturePlan& plan, const ProgramSet& programs,
                             CaptureTimes& times) const {
  const TraceSpan span{.start_ns = times.start_ns, .stop_ns = times.stop_ns};
  std::optional<ProgramRecords::StepTimes> steps;
  for (const RecordedProgram* program : programs.Counted()) {
    const auto found = program->records().TimesOfSteps(plan.step_loop(), plan.first_step(),
                                                       plan.first_step() + plan.steps() - 1, span);
    if (!found) continue;
    if (!steps) steps = found;
    steps->begin_ns = std::min(steps->begin_ns, found->begin_ns);
    steps->end_ns = std::max(steps->end_ns, found->end_ns);
  }
  if (!steps) return;
  times.instant_ns = steps->begin_ns;
  times.end_ns = steps->end_ns;
  times.start_ns = std::max(times.start_ns, steps->begin_ns - plan.guard_ns());
  times.stop_ns = std::min(times.stop_ns, steps->end_ns + plan.guard_ns());
}

std::vector<Recording> AgentSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                           const Cancellation& terminate,
                                           const std::function<void()>& collecting) {
  CaptureTimes times = TimesOf(plan);
  // A record may be in memory up to four times: as a record, and as parts of the trace while it is
  // built.
  std::uint64_t budget = std::min(options_.max_bytes, MemoryHeadroom(4));
  ProgramSet programs(directory_, WishesOf(plan, times));
  const bool stepping = RecordUntilEnd(plan, cancel, terminate, times, programs, budget);
  collecting();
  if (cancel.cancelled()) return session::OneRecording({.outcome = Outcome::kCancelled});
  AwaitDevices(cancel, programs, budget);
  programs.Drain(budget);
  programs.Settle(budget);
  programs.CountUnseen();
  if (stepping) CutToSteps(plan, programs, times);
  return Collect(plan, times, programs);
}

// CUPTI returns its last records when it is disabled. They may not fit into the ring at once, so
// the rings are drained meanwhile.
void AgentSource::AwaitDevices(const Cancellation& cancel, ProgramSet& programs,
                               std::uint64_t& budget) const {
  const MonoTime deadline = clock_.MonoNow() + kDeviceGrace;
  while (!cancel.cancelled() && clock_.MonoNow() < deadline && !programs.DevicesSettled()) {
    programs.Drain(budget);
    cancel.WaitFor(kDrainEvery);
  }
}

std::vector<Recording> AgentSource::Collect(const v1::CapturePlan& plan, const CaptureTimes& times,
                                            ProgramSet& programs) const {
  const std::vector<RecordedProgram*> counted = programs.Counted();
  const std::vector<ProgramFacts> facts = programs.Facts();
  std::vector<v1::ProcessReport> missing = programs.Missing();
  if (counted.empty() && missing.empty()) {
    return session::OneRecording(
        {.outcome = Outcome::kNoSource,
         .message =
             StrCat("no program with the agent runs",
                    programs.container().empty() ? "" : " in container ", programs.container(),
                    "; ", directory_.path(), " has no ring file of a running program")});
  }
  std::vector<Rank> ranks;
  for (const RecordedProgram* program : counted) ranks.push_back(program->rank());
  for (const v1::ProcessReport& row : missing) ranks.push_back(RankIn(row));
  std::vector<Recording> recordings;
  for (const RankGroup& group : GroupByRank(plan, ranks)) {
    RankPrograms of_rank;
    for (const std::size_t i : group.members) {
      if (i < counted.size())
        of_rank.programs.emplace_back(counted[i], &facts[i]);
      else
        of_rank.missing.push_back(std::move(missing[i - counted.size()]));
    }
    recordings.push_back(CollectRank(plan, times, std::move(of_rank)));
    recordings.back().rank = group.rank;
  }
  return recordings;
}

Recording AgentSource::CollectRank(const v1::CapturePlan& plan, const CaptureTimes& times,
                                   RankPrograms of_rank) const {
  TraceSpan span{.start_ns = times.start_ns - (recorded_before() ? LookBack(plan).count() : 0),
                 .stop_ns = times.stop_ns,
                 .recording_ns = times.start_ns};
  xplane::PlaneBuilder host(xplane::kHostPlane);
  DevicePlanes devices((span.stop_ns - span.start_ns) * 1000);
  Recording recording;
  std::vector<std::string> errors, warnings;
  std::int64_t started = times.start_ns, stopped = times.stop_ns;
  std::uint64_t lost = 0, device_lost = 0;
  const bool several = of_rank.programs.size() > 1;
  for (const auto& [program, observed] : of_rank.programs) {
    const ProgramFacts& facts = *observed;
    const ProgramRecords& records = program->records();
    if (program->counts_steps()) ++recording.stepping_processes;
    records.Build(span, several ? facts.label : "", host, devices);
    ProcessVerdict verdict = JudgeProgram(facts, times, plan.expects_device());
    if (program->rank()) *verdict.row.mutable_rank() = *program->rank();
    std::move(verdict.errors.begin(), verdict.errors.end(), std::back_inserter(errors));
    std::move(verdict.warnings.begin(), verdict.warnings.end(), std::back_inserter(warnings));
    if (const auto reached = records.KeptOnly(span)) {
      warnings.push_back(StrCat(facts.label, ": its rings held only the last ",
                                FormatDuration(Nanos{*reached}), " before the start; ",
                                FormatDuration(LookBack(plan)),
                                " were requested; increase STROBE_RING_KB"));
    }
    if (plan.look_back_ns() > 0) {
      if (const auto reached = records.ReachedBack(span, std::max(facts.born_ns, began_ns_)))
        verdict.row.set_reached_back_ns(recorded_before() ? *reached : 0);
    }
    if (const auto reached = records.DevicesReachedBack(span); reached && options_.idle_devices) {
      const Nanos wanted{span.recording_ns - span.start_ns};
      if (plan.look_back_ns() > 0) verdict.row.set_devices_reached_back_ns(*reached);
      const std::int64_t could_be_from =
          std::max(span.start_ns,
                   std::min(facts.cuda_since_ns, span.recording_ns) + kDevicesSettled.count());
      if (span.recording_ns - *reached > could_be_from) {
        warnings.push_back(StrCat(facts.label, ": its GPUs were recorded only for the last ",
                                  FormatDuration(Nanos{*reached}), " before the start; ",
                                  FormatDuration(wanted), " were requested"));
      }
    }
    if (const std::uint64_t jump = records.DeviceClockJumpNs(); jump > 0) {
      warnings.push_back(StrCat(facts.label, ": CUPTI's clock was set by ",
                                FormatDuration(Nanos{jump}),
                                "; device events around that moment are misplaced"));
    }
    // The worker's recording is complete from when its last program was switched on until the first
    // one was switched off. Programs that started or ended meanwhile do not count.
    if (facts.on_ns > std::max(times.start_ns, facts.born_ns))
      started = std::max(started, facts.on_ns);
    if (verdict.unrecorded)
      started = times.stop_ns;
    else if (facts.lives && !facts.ended_cleanly)
      stopped = std::min(stopped, facts.off_ns);
    lost += facts.lost;
    device_lost += facts.device.lost;
    recording.processes.push_back(std::move(verdict.row));
  }
  std::move(of_rank.missing.begin(), of_rank.missing.end(),
            std::back_inserter(recording.processes));
  recording.outcome = Outcome::kOk;
  ConcludeProcesses(recording);
  if (lost > 0) recording.dropped["ring"] = lost;
  if (device_lost > 0) recording.dropped["device"] = device_lost;
  if (of_rank.programs.empty()) return recording;
  recording.xspace = host.Encode() + devices.Encode();
  recording.xspace += Environment(span, started, stopped, times);
  for (const std::string& note : errors)
    xplane::AppendNote(xplane::kErrorsField, note, recording.xspace);
  for (const std::string& note : warnings)
    xplane::AppendNote(xplane::kWarningsField, note, recording.xspace);
  return recording;
}

}  // namespace strobe::source
