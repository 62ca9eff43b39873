#include "sidecar/session/trace_report.h"

#include <algorithm>
#include <utility>

#include "collector/base/outcome.h"
#include "collector/base/utf8.h"
#include "collector/base/version.h"
#include "collector/xplane/edit.h"
#include "collector/xplane/names.h"
#include "collector/xplane/space.h"
#include "collector/xplane/wire.h"

namespace strobe::session {
namespace {

constexpr int kMostPlanes = 32;
constexpr int kMostNotes = 8;
constexpr std::size_t kMaxTextBytes = 512;
constexpr int kMaxProcesses = 64;
constexpr std::size_t kMaxProcessNameBytes = 128;

}  // namespace

void FillFromTrace(const xplane::TraceSummary& trace, v1::Report& report) {
  report.set_started_ns(trace.started_ns);
  report.set_stopped_ns(trace.stopped_ns);
  report.set_events(trace.events);
  for (const xplane::PlaneSummary& plane : trace.planes) {
    if (report.planes_size() < kMostPlanes) report.add_planes(CutUtf8(plane.name, kMaxTextBytes));
  }
  for (const auto* notes : {&trace.errors, &trace.warnings}) {
    for (const std::string& note : *notes) {
      if (report.notes_size() < kMostNotes) report.add_notes(CutUtf8(note, kMaxTextBytes));
    }
  }
}

void FillProcesses(std::vector<v1::ProcessReport> processes, v1::Report& report) {
  const auto badness = [](const v1::ProcessReport& process) {
    return Describe(static_cast<Outcome>(process.outcome())).badness;
  };
  std::stable_sort(processes.begin(), processes.end(),
                   [&](const auto& a, const auto& b) { return badness(a) > badness(b); });
  for (v1::ProcessReport& process : processes) {
    if (report.processes_size() == kMaxProcesses) {
      report.set_processes_left_out(report.processes_left_out() + 1);
      continue;
    }
    process.set_name(CutUtf8(process.name(), kMaxProcessNameBytes));
    process.set_message(CutUtf8(process.message(), kMaxTextBytes));
    *report.add_processes() = std::move(process);
  }
}

std::string EncodeStrobePlane(const v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  return xplane::EncodeStatPlane(
      xplane::kStrobePlane, {{"strobe_version", std::string(kVersion)},
                             {"capture_id", plan.capture_id()},
                             {"worker", plan.worker()},
                             {"instant_ns", plan.instant_ns()},
                             {"duration_ns", plan.duration_ns()},
                             {"guard_ns", plan.guard_ns()},
                             {"clock_offset_ns", plan.clock_offset_ns()},
                             {"clock_error_ns", plan.clock_error_ns()},
                             {"expects_device", std::int64_t{plan.expects_device()}},
                             {"tracers_host", std::int64_t{plan.tracers().host()}},
                             {"outcome", std::string(Name(static_cast<Outcome>(report.outcome())))},
                             {"message", report.message()},
                             {"started_ns", report.started_ns()},
                             {"stopped_ns", report.stopped_ns()},
                             {"job_memory_percent", std::int64_t{report.job().memory_percent()}},
                             {"job_step_before_ns", report.job().step_before_ns()},
                             {"job_step_during_ns", report.job().step_during_ns()}});
}

std::string CaptureOfTail(std::string_view tail) {
  constexpr char kPlaneTag = (1 << 3) | 2;  // XSpace.planes.
  // From the front: what could be taken for the beginning of a plane within the last one comes
  // later.
  for (std::size_t at = 0; at < tail.size(); ++at) {
    const std::string_view rest = tail.substr(at);
    if (rest.front() != kPlaneTag) continue;
    wire::Reader reader(rest);
    if (!reader.Next() || reader.raw().size() != rest.size()) continue;
    const absl::StatusOr<xplane::Space> space = xplane::Space::Read(rest);
    const xplane::Plane* plane = space.ok() ? space->Find(xplane::kStrobePlane) : nullptr;
    if (plane == nullptr) continue;
    std::string capture;
    const absl::Status read = plane->ForEachStat([&](const xplane::Stat& stat) {
      const auto* text = std::get_if<std::string_view>(&stat.value);
      if (text != nullptr && plane->NameOf(stat) == "capture_id") capture = std::string(*text);
    });
    return read.ok() ? capture : "";
  }
  return "";
}

}  // namespace strobe::session
