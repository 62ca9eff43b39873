#include "sidecar/source/agent_source.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "collector/base/duration.h"
#include "collector/base/strings.h"
#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "collector/xplane/wire.h"
#include "sidecar/source/device_planes.h"
#include "sidecar/source/device_verdict.h"
#include "sidecar/source/memory_room.h"
#include "sidecar/source/ring_files.h"
#include "sidecar/wire/ring_file.h"
#include "sidecar/wire/ticks.h"

namespace strobe {
namespace {

using session::Recording;
using std::chrono::milliseconds;
using wire::RingFile;

// Programs see the control word with their next scope; CUPTI takes its time to start.
constexpr Nanos kAnnotationLead = milliseconds(20);
constexpr Nanos kDeviceLead = milliseconds(1000);
// How long after the end a program may take to hand over its devices' last records.
constexpr Nanos kDeviceGrace = milliseconds(5000);
constexpr Nanos kDrainEvery = milliseconds(2);
constexpr Nanos kLookEvery = milliseconds(50);  // For programs that have just started.

std::int64_t WallMinusMonotonic(const Clock& clock) {
  return ToUnixNanos(clock.WallNow()) - static_cast<std::int64_t>(wire::MonotonicNs());
}

// The worse of two verdicts stands.
void Worsen(Outcome outcome, std::string message, Recording& recording) {
  if (Describe(outcome).badness <= Describe(recording.outcome).badness) return;
  recording.outcome = outcome;
  recording.message = std::move(message);
}

}  // namespace

AgentSource::AgentSource(const Clock& clock, AgentOptions options)
    : clock_(clock), options_(std::move(options)) {
  // A sidecar before us may have died in the middle of a capture.
  for (const std::string& path : RingFiles(options_.directory)) {
    if (const RingFile file = RingFile::Open(path)) {
      file.header()->control.store(0);
      file.header()->device_control.store(0);
      file.header()->memory_until.store(0);
    }
  }
}

std::vector<v1::Source> AgentSource::Probe(Nanos) {
  std::size_t living = 0;
  for (const std::string& path : RingFiles(options_.directory)) {
    const RingFile file = RingFile::Open(path);
    if (file && file.ProgramLives()) ++living;
  }
  v1::Source source;
  source.set_kind(v1::SOURCE_AGENT);
  source.set_address(options_.directory);
  source.set_ready(living > 0);
  if (living == 0) source.set_detail("no program with the agent runs");
  return {source};
}

Nanos AgentSource::lead() const {
  for (const std::string& path : RingFiles(options_.directory)) {
    const RingFile file = RingFile::Open(path);
    if (file && file.ProgramLives() && file.header()->uses_cuda.load() != 0) return kDeviceLead;
  }
  return kAnnotationLead;
}

Recording AgentSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                              const Cancellation& terminate,
                              const std::function<void()>& collecting) {
  const std::int64_t start_ns = plan.instant_ns() - plan.guard_ns();
  std::int64_t stop_ns = plan.instant_ns() + plan.duration_ns() + plan.guard_ns();
  const auto now_ns = [&] { return ToUnixNanos(clock_.WallNow()); };
  const std::uint32_t filter =
      plan.tracers().host_filter() == 0 ? ~0u : plan.tracers().host_filter();

  Programs programs;
  bool annotations = false;
  std::set<std::string> elsewhere;  // Programs that do not say in which container they are.
  const auto look = [&](bool first) {
    for (const std::string& path : RingFiles(options_.directory)) {
      if (programs.contains(path)) continue;
      const std::string container = wire::ContainerOf(path);
      const bool wanted = plan.container().empty() || container == plan.container();
      if (!wanted && !container.empty()) continue;
      RingFile file = RingFile::Open(path);
      if (!file) continue;
      if (!file.ProgramLives()) {
        // Nobody will write to it any more, and nobody asked for what it holds.
        if (first) unlink(path.c_str());
        continue;
      }
      if (!wanted) {
        elsewhere.insert(path);
        continue;
      }
      auto program = std::make_unique<RecordedProgram>(
          std::move(file), !first                          ? RecordedProgram::From::kStart
                           : options_.look_back > Nanos{0} ? RecordedProgram::From::kOldest
                                                           : RecordedProgram::From::kNow);
      if (annotations) program->SetLevel(plan.tracers().host(), filter);
      if (plan.tracers().device() > 0) program->ArmDevice(Nanos{stop_ns - now_ns()} + kDeviceGrace);
      programs.emplace(path, std::move(program));
    }
  };
  // As records, and twice as a trace while it is made.
  std::uint64_t budget = std::min(options_.most_bytes, MemoryRoom(4));
  look(true);
  MonoTime looked = clock_.MonoNow();
  while (!cancel.cancelled() && now_ns() < stop_ns) {
    if (!annotations && Nanos{start_ns - now_ns()} <= kAnnotationLead) {
      annotations = true;
      for (const auto& [path, program] : programs) program->SetLevel(plan.tracers().host(), filter);
    }
    for (const auto& [path, program] : programs) program->Drain(budget);
    if (clock_.MonoNow() - looked > kLookEvery) {
      look(false);
      looked = clock_.MonoNow();
    }
    if (terminate.cancelled()) stop_ns = std::min(stop_ns, now_ns());
    cancel.WaitFor(std::clamp<Nanos>(Nanos{stop_ns - now_ns()}, Nanos{0}, kDrainEvery));
  }
  for (const auto& [path, program] : programs) {
    program->SetLevel(options_.idle_level, ~0u);
    program->DisarmDevice();
  }
  collecting();
  if (cancel.cancelled()) return {.outcome = Outcome::kCancelled};
  if (programs.empty()) {
    return {.outcome = Outcome::kNoSource,
            .message = StrCat("no program with the agent runs",
                              plan.container().empty() ? "" : " in container ", plan.container(),
                              "; ", options_.directory, " has no rings of a living one")};
  }
  AwaitDevices(programs, cancel, budget);
  return Collect(programs,
                 {.start_ns = start_ns - options_.look_back.count(),
                  .stop_ns = stop_ns,
                  .recording_ns = start_ns,
                  .wall_minus_monotonic_ns = WallMinusMonotonic(clock_)},
                 elsewhere.size(), budget);
}

// CUPTI hands its last records over when it is switched off, and more of them than the ring holds
// if nobody read meanwhile.
void AgentSource::AwaitDevices(const Programs& programs, const Cancellation& cancel,
                               std::uint64_t& budget) const {
  const MonoTime deadline = clock_.MonoNow() + kDeviceGrace;
  const auto settled = [](const auto& entry) { return entry.second->DeviceSettled(); };
  while (!cancel.cancelled() && clock_.MonoNow() < deadline &&
         !std::all_of(programs.begin(), programs.end(), settled)) {
    for (const auto& [path, program] : programs) program->Drain(budget);
    cancel.WaitFor(kDrainEvery);
  }
}

Recording AgentSource::Collect(const Programs& programs, const TraceWindow& window,
                               std::size_t left_out, std::uint64_t budget) const {
  Recording recording{.outcome = Outcome::kOk};
  xplane::PlaneBuilder host(xplane::kHostPlane);
  DevicePlanes devices((window.stop_ns - window.start_ns) * 1000);
  std::vector<std::string> died, errors, warnings;
  if (left_out > 0) {
    warnings.push_back(StrCat(left_out,
                              " programs do not say in which container they run (STROBE_CONTAINER "
                              "is not set for them) and were not recorded"));
  }
  std::uint64_t kept = 0, lost = 0, device_lost = 0;
  for (const auto& [path, program] : programs) {
    program->Drain(budget);
    program->Build(window, programs.size() > 1 ? program->Label() : "", host, devices);
    kept += program->kept();
    lost += program->lost();
    device_lost += program->device_status().lost;
    if (!program->lives()) {
      died.push_back(program->Label());
      continue;
    }
    const DeviceVerdict verdict = JudgeDevice(program->device_status());
    if (verdict.outcome != Outcome::kOk) {
      errors.push_back(StrCat(program->Label(), ": ", verdict.message));
      Worsen(verdict.outcome, errors.back(), recording);
    }
    if (const auto began = program->DeviceBegan(window); began && *began > 0) {
      warnings.push_back(StrCat(program->Label(), ": its devices were recorded from ",
                                FormatDuration(Nanos{*began}), " after the start on"));
      Worsen(Outcome::kLateStart, warnings.back(), recording);
    }
    if (const auto reached = program->KeptOnly(window)) {
      warnings.push_back(StrCat(program->Label(), ": its rings held only the last ",
                                FormatDuration(Nanos{*reached}), " before the start of the ",
                                FormatDuration(options_.look_back),
                                " wanted; a larger STROBE_RING_KB holds more"));
    }
    if (const std::uint64_t jump = program->DeviceClockJumpNs(); jump > 0) {
      warnings.push_back(StrCat(program->Label(), ": CUPTI's clock was set by ",
                                FormatDuration(Nanos{jump}),
                                "; device events around that moment are misplaced"));
    }
  }
  if (lost > 0) {
    Worsen(Outcome::kEventsDropped,
           StrCat(lost, " of ", kept + lost,
                  " records are missing: the programs made them faster than they could be read, or "
                  "more of them than fit into the sidecar's memory; "
                  "lower tracers.host, or give the programs a larger STROBE_RING_KB"),
           recording);
  }
  if (!died.empty()) {
    Worsen(Outcome::kWorkerLost,
           StrCat("ended while it was recorded: ", Join(died, ", "),
                  "; the trace has what it had written until then"),
           recording);
  }
  if (lost > 0) recording.dropped["ring"] = lost;
  if (device_lost > 0) recording.dropped["device"] = device_lost;
  recording.xspace = host.Encode() + devices.Encode();
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(window.start_ns));
  environment.AddPlaneStat(xplane::kRecordingStart,
                           static_cast<std::uint64_t>(window.recording_ns));
  environment.AddPlaneStat(xplane::kProfileStop, static_cast<std::uint64_t>(window.stop_ns));
  recording.xspace += environment.Encode();
  for (const std::string& error : errors)
    wire::AppendBytesField(xplane::kErrorsField, error, recording.xspace);
  for (const std::string& warning : warnings)
    wire::AppendBytesField(xplane::kWarningsField, warning, recording.xspace);
  return recording;
}

}  // namespace strobe
