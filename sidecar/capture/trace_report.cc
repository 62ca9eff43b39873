#include "sidecar/capture/trace_report.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/protocol/outcome.h"
#include "common/protocol/process_role.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/trace_file.h"

namespace strobe::session {
namespace {

constexpr int kMaxPlanes = 32;
constexpr int kMaxNotes = 8;
constexpr std::size_t kMaxTextBytes = 512;
constexpr int kMaxProcesses = 64;
constexpr std::size_t kMaxProcessNameBytes = 128;
constexpr std::size_t kMaxProcessNoteBytes = 256;

// The wall clock minus the monotonic clock, as the plan's times refer to them; nothing if that is
// not known. Keeps forged values from overflowing later sums.
std::optional<Nanos> ReadingOf(const v1::CapturePlan& plan) {
  constexpr std::int64_t kMaxDifference = std::int64_t{1} << 62;
  const std::int64_t read = plan.wall_less_monotonic_ns();
  if (read <= 0 || read > kMaxDifference) return std::nullopt;
  return Nanos{read};
}

Outcome OutcomeIn(const v1::Report& report) { return static_cast<Outcome>(report.outcome()); }

// The outcome of the worst worker, with the number of those that ended well.
void SummarizeOutcome(v1::Report& report) {
  const auto& workers = report.workers();
  const auto worst =
      std::max_element(workers.begin(), workers.end(), [](const auto& a, const auto& b) {
        return Describe(OutcomeIn(a)).badness < Describe(OutcomeIn(b)).badness;
      });
  const auto good = std::count_if(workers.begin(), workers.end(), [](const v1::Report& worker) {
    return OutcomeIn(worker) == Outcome::kOk;
  });
  if (good == workers.size()) return SetOutcome(Outcome::kOk, "", report);
  SetOutcome(
      OutcomeIn(*worst),
      StrCat(good, " of ", workers.size(), " workers of the pod were recorded as requested; ",
             worst->plan().worker(), ": ", worst->message()),
      report);
}

// True if nothing that happens after the recording changes the worker's outcome: its trace is
// stored, or it has none to store.
bool HasResult(const v1::Report& worker) {
  const bool has_trace = worker.bytes() > 0;
  return has_trace ? !worker.url().empty() : worker.outcome() != v1::OUTCOME_UNSPECIFIED;
}

template <typename Report>
auto TraceReportsOf(Report& report, auto& workers) {
  std::vector<Report*> reports;
  for (Report& worker : workers) reports.push_back(&worker);
  if (reports.empty()) reports.push_back(&report);
  return reports;
}

}  // namespace

void FillFromTrace(const xplane::TraceSummary& trace, v1::Report& report) {
  report.set_started_ns(trace.started_ns);
  report.set_stopped_ns(trace.stopped_ns);
  report.set_events(trace.events);
  for (const xplane::PlaneSummary& plane : trace.planes) {
    if (report.planes_size() < kMaxPlanes) report.add_planes(CutUtf8(plane.name, kMaxTextBytes));
  }
  for (const auto* notes : {&trace.errors, &trace.warnings}) {
    for (const std::string& note : *notes) {
      if (report.notes_size() < kMaxNotes) report.add_notes(CutUtf8(note, kMaxTextBytes));
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
    process.set_note(CutUtf8(process.note(), kMaxProcessNoteBytes));
    *report.add_processes() = std::move(process);
  }
}

ClockSteps StepsSince(const Clock& clock, const v1::CapturePlan& plan) {
  const std::optional<Nanos> read = ReadingOf(plan);
  return read ? ClockSteps(clock, *read) : ClockSteps(clock);
}

v1::CapturePlan OnClockSetBy(Nanos set, v1::CapturePlan plan) {
  plan.set_instant_ns(plan.instant_ns() + set.count());
  plan.set_deadline_ns(plan.deadline_ns() + set.count());
  if (plan.steps() > 0) plan.set_steps_by_ns(plan.steps_by_ns() + set.count());
  if (const std::optional<Nanos> read = ReadingOf(plan))
    plan.set_wall_less_monotonic_ns((*read + set).count());
  return plan;
}

void MoveTimes(Nanos by, v1::ProcessReport& process) {
  if (process.started_ns() != 0) process.set_started_ns(process.started_ns() + by.count());
  if (process.stopped_ns() != 0) process.set_stopped_ns(process.stopped_ns() + by.count());
}

void MoveTimes(Nanos by, v1::StepPace& pace) {
  pace.set_began_ns(pace.began_ns() + by.count());
  if (pace.ended_ns() != 0) pace.set_ended_ns(pace.ended_ns() + by.count());
}

void CorrectTimes(const Recording& recording, xplane::TraceSummary& trace) {
  if (trace.started_ns != 0) trace.started_ns -= recording.clock_set_at_start.count();
  if (trace.stopped_ns != 0) trace.stopped_ns -= recording.clock_set_at_stop.count();
}

void ReportMissingOptions(const Recording& recording, v1::Report& report) {
  if (recording.has_torch_options) return;
  const v1::Tracers& tracers = report.plan().tracers();
  std::vector<std::string> asked;
  const std::array<std::pair<std::string_view, bool>, 6> options = {
      {{"shapes", tracers.shapes()},
       {"stacks", tracers.stacks()},
       {"memory", tracers.memory()},
       {"flops", tracers.flops()},
       {"modules", tracers.modules()},
       {"keepOriginal", tracers.keep_original()}}};
  for (const auto& [name, is_asked] : options) {
    if (is_asked) asked.push_back(StrCat("tracers.", name));
  }
  if (asked.empty()) return;
  report.add_notes(StrCat(Join(asked, ", "), asked.size() > 1 ? " were" : " was",
                          " requested, which only PyTorch's profiler records; no process of this "
                          "worker announced that profiler"));
}

void ReportOriginal(std::string_view process, const absl::StatusOr<std::string>& name,
                    v1::Report& report) {
  for (v1::ProcessReport& row : *report.mutable_processes()) {
    if (row.name() != CutUtf8(process, kMaxProcessNameBytes)) continue;
    if (name.ok()) {
      row.set_original(*name);
      continue;
    }
    const std::string note = StrCat("its original was not kept: ", MessageOf(name.status()),
                                    row.note().empty() ? "" : "; ", row.note());
    row.set_note(CutUtf8(note, kMaxProcessNoteBytes));
  }
}

void FillReachedBack(const Recording& recording, v1::Report& report) {
  if (report.plan().look_back_ns() == 0) return;
  std::optional<std::int64_t> least;
  for (const v1::ProcessReport& row : recording.processes) {
    if (row.has_reached_back_ns())
      least = std::min(least.value_or(row.reached_back_ns()), row.reached_back_ns());
  }
  report.set_reached_back_ns(least.value_or(0));
}

void ReportClock(const Recording& recording, v1::Report& report) {
  if (recording.clock_set_at_start != Nanos{0})
    report.add_notes(StrCat("the worker's wall clock was set by ",
                            FormatDuration(recording.clock_set_at_start),
                            " between arming and the start; the planned start did not move"));
  const Nanos during = recording.clock_set_at_stop - recording.clock_set_at_start;
  if (during != Nanos{0})
    report.add_notes(StrCat("the worker's wall clock was set by ", FormatDuration(during),
                            " during the recording; later events are misplaced"));
}

std::string EncodeStrobePlane(const v1::Report& report, Nanos clock_set) {
  const v1::CapturePlan plan = OnClockSetBy(clock_set, report.plan());
  const auto moved = [clock_set](std::int64_t time) {
    return time == 0 ? 0 : time + clock_set.count();
  };
  std::vector<std::pair<std::string, xplane::StatValue>> stats = {
      {"strobe_version", std::string(kVersion)},
      {"capture_id", plan.capture_id()},
      {"worker", plan.worker()},
      {"instant_ns", plan.instant_ns()},
      {"duration_ns", plan.duration_ns()},
      {"guard_ns", plan.guard_ns()},
      {"clock_offset_ns", plan.clock_offset_ns() + clock_set.count()},
      {"clock_error_ns", plan.clock_error_ns()},
      {"expects_device", std::int64_t{plan.expects_device()}},
      {"tracers_host", std::int64_t{plan.tracers().host()}},
      {"outcome", std::string(Name(static_cast<Outcome>(report.outcome())))},
      {"message", report.message()},
      {"started_ns", moved(report.started_ns())},
      {"stopped_ns", moved(report.stopped_ns())},
      {"job_memory_percent", std::int64_t{report.job().memory_percent()}},
      {"job_step_before_ns", report.job().step_before_ns()},
      {"job_step_during_ns", report.job().step_during_ns()}};
  if (!plan.role().empty())
    stats.emplace_back("role", plan.role());
  else if (const v1::ProcessReport* with_role = ProcessWithRole(report.processes()))
    stats.emplace_back("role", with_role->role());
  if (report.has_rank()) {
    stats.emplace_back("local_rank", std::int64_t{report.rank().local_rank()});
    if (report.rank().has_rank()) stats.emplace_back("rank", std::int64_t{report.rank().rank()});
  }
  if (report.has_steps()) {
    stats.emplace_back("steps_loop", report.steps().loop());
    stats.emplace_back("steps_first", report.steps().first());
    stats.emplace_back("steps_last", report.steps().last());
  }
  if (plan.steps() > 0) {
    stats.emplace_back("steps_asked", std::int64_t{plan.steps()});
    stats.emplace_back("steps_asked_first", plan.first_step());
  }
  for (v1::ProcessReport process : report.processes()) {
    MoveTimes(clock_set, process);
    std::string json;
    // Fails only for text that is not UTF-8; FillProcesses has made the text valid.
    (void)google::protobuf::util::MessageToJsonString(process, &json);
    stats.emplace_back(xplane::kProcess, std::move(json));
  }
  if (report.processes_left_out() > 0)
    stats.emplace_back(xplane::kProcessesLeftOut, std::int64_t{report.processes_left_out()});
  return xplane::EncodeStatPlane(xplane::kStrobePlane, stats);
}

std::string CaptureOfTail(std::string_view tail) {
  constexpr char kPlaneTag = (1 << 3) | 2;  // XSpace.planes.
  constexpr int kMaxTries = 16;  // Limits attempts with bytes that only look like the last plane.
  int tries = 0;
  // Searches from the front, because bytes inside the last plane may look like the beginning of a
  // plane.
  for (std::size_t at = 0; at < tail.size(); ++at) {
    const std::string_view rest = tail.substr(at);
    if (rest.front() != kPlaneTag) continue;
    wire::Reader reader(rest);
    if (!reader.Next() || reader.raw().size() != rest.size()) continue;
    if (++tries > kMaxTries) break;
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

void SplitReport(std::span<const Recording> recordings, v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  // A worker that the plan chose by its rank has the same name as in a capture of all workers.
  const bool chosen = recordings.front().rank && (plan.ranks_size() + plan.local_ranks_size() > 0);
  if (recordings.size() == 1 && !chosen) {
    if (recordings.front().rank) *report.mutable_rank() = *recordings.front().rank;
    return;
  }
  for (const Recording& recording : recordings) {
    v1::Report& worker = *report.add_workers();
    worker.set_capture_id(report.capture_id());
    *worker.mutable_plan() = report.plan();
    *worker.mutable_rank() = *recording.rank;
    worker.mutable_plan()->set_worker(
        StrCat(report.plan().worker(), ".", recording.rank->local_rank()));
  }
}

std::vector<v1::Report*> TraceReports(v1::Report& report) {
  return TraceReportsOf(report, *report.mutable_workers());
}
std::vector<const v1::Report*> TraceReports(const v1::Report& report) {
  return TraceReportsOf(report, report.workers());
}

void EndUndelivered(Outcome outcome, std::string_view message, v1::Report& report) {
  SetOutcome(outcome, message, report);
  report.set_state(v1::DONE);
  for (v1::Report& worker : *report.mutable_workers()) {
    if (!HasResult(worker)) SetOutcome(outcome, message, worker);
    worker.set_state(v1::DONE);
  }
}

void Summarize(v1::Report& report) {
  if (report.workers().empty()) return;
  std::int64_t started = 0, stopped = 0;
  std::uint64_t bytes = 0, events = 0;
  std::optional<std::int64_t> reached_back;
  bool covers_window = true;
  for (const v1::Report& worker : report.workers()) {
    started = std::max(started, worker.started_ns());
    if (worker.stopped_ns() != 0)
      stopped = stopped == 0 ? worker.stopped_ns() : std::min(stopped, worker.stopped_ns());
    if (worker.has_reached_back_ns())
      reached_back =
          std::min(reached_back.value_or(worker.reached_back_ns()), worker.reached_back_ns());
    bytes += worker.bytes();
    events += worker.events();
    covers_window = covers_window && worker.covers_window();
  }
  report.set_started_ns(started);
  report.set_stopped_ns(stopped);
  report.set_bytes(bytes);
  report.set_events(events);
  if (reached_back) report.set_reached_back_ns(*reached_back);
  report.set_covers_window(covers_window);
  const auto uploaded =
      std::find_if(report.workers().begin(), report.workers().end(),
                   [](const v1::Report& worker) { return !worker.url().empty(); });
  if (uploaded != report.workers().end()) report.set_url(uploaded->url());
  SummarizeOutcome(report);
}

}  // namespace strobe::session
