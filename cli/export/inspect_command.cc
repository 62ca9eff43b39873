#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/open_traces.h"
#include "cli/base/process_table.h"
#include "cli/base/report_table.h"
#include "cli/base/stats_json.h"
#include "cli/base/trace_commands.h"
#include "collector/trace/analysis/event_stats.h"
#include "collector/trace/analysis/steps.h"
#include "collector/trace/analysis/verdict.h"
#include "collector/trace/digest/device_lines.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

using Json = nlohmann::ordered_json;
using convert::AlignedTraces;
using convert::OpenTrace;
using convert::WorkerTrace;

// A name of an event may be a whole program of XLA.
constexpr std::size_t kMaxNameBytes = 300;

std::string Time(std::int64_t ps) { return FormatDuration(Nanos{ps / 1000}); }

// The steps that share an annotation's name.
struct StepSummary {
  std::string name;
  std::vector<std::int64_t> lengths_ps;  // Sorted.
  std::int64_t first = 0, last = 0;      // The smallest and the largest number.
};

// Groups steps by name, in the order in which the first one of each name began.
std::vector<StepSummary> SumSteps(const std::vector<analysis::Step>& steps) {
  std::vector<StepSummary> sums;
  for (const analysis::Step& step : steps) {
    auto sum = std::find_if(sums.begin(), sums.end(),
                            [&](const StepSummary& s) { return s.name == step.name; });
    if (sum == sums.end()) {
      sums.push_back({.name = std::string(step.name),
                      .lengths_ps = {},
                      .first = step.number,
                      .last = step.number});
      sum = sums.end() - 1;
    }
    sum->lengths_ps.push_back(step.end_ps - step.begin_ps);
    sum->first = std::min(sum->first, step.number);
    sum->last = std::max(sum->last, step.number);
  }
  for (StepSummary& sum : sums) std::sort(sum.lengths_ps.begin(), sum.lengths_ps.end());
  return sums;
}

// What is shown of one worker, as a table or as JSON.
struct Inspected {
  std::string worker{};
  bool has_trace = true;
  std::int64_t shift_ns = 0;  // After the first worker.
  std::vector<analysis::PlaneStats> planes{};
  std::vector<std::size_t> lines{};  // The number of lines of each plane.
  std::vector<StepSummary> steps{};
  std::vector<std::string> problems{};
  analysis::Verdict verdict{};
  Processes processes{};
};

// The lines of a device that show each piece of its work once: others repeat it under the names of
// the program's scopes, or show what CUPTI did. All lines of a host.
analysis::LinePredicate LinesThatTakeTime(const xplane::Plane& plane) {
  if (!digest::IsDevicePlane(plane.name)) return {};
  return [lines = digest::DeviceLines(plane)](const xplane::Line& line) {
    return lines.IsWork(line.name);
  };
}

absl::StatusOr<Inspected> Inspect(const WorkerTrace& trace, const InspectFlags& flags) {
  Inspected result{.worker = trace.worker, .shift_ns = trace.shift_ns};
  for (const xplane::Plane& plane : trace.space.planes) {
    if (!Contains(plane.name, flags.plane)) continue;
    ASSIGN_OR_RETURN(analysis::PlaneStats stats,
                     analysis::ComputeStats(plane, LinesThatTakeTime(plane)));
    result.planes.push_back(std::move(stats));
    result.lines.push_back(plane.lines.size());
  }
  ASSIGN_OR_RETURN(const std::vector<analysis::Step> steps, analysis::FindSteps(trace.space));
  result.steps = SumSteps(steps);
  ASSIGN_OR_RETURN(result.verdict, analysis::JudgeSpace(trace.space, steps, flags.expect_device));
  ASSIGN_OR_RETURN(result.processes, ProcessesOf(trace.space));
  for (const std::string_view text : trace.space.errors)
    result.problems.push_back(StrCat("error: ", text));
  for (const std::string_view text : trace.space.warnings)
    result.problems.push_back(StrCat("warning: ", text));
  return result;
}

std::string Median(const std::vector<std::int64_t>& sorted) {
  return Time(sorted[sorted.size() / 2]);
}

// A worker without a trace, of which only the manifest tells.
Inspected Missing(const v1::ManifestWorker& worker) {
  Inspected result{.worker = worker.name(), .has_trace = false};
  result.verdict.judgement.outcome = OutcomeOfName(worker.outcome());
  result.verdict.judgement.message = worker.message();
  result.processes = ProcessesOf(worker);
  result.verdict.evidence.emplace_back("there is no trace; the manifest reports this outcome");
  return result;
}

// A worker whose trace is damaged.
Inspected Unreadable(const convert::LeftOut& worker) {
  Inspected result{.worker = worker.worker, .has_trace = false};
  result.verdict.judgement.outcome =
      Outcome::kWorkerLost;  // The likely cause, with the fitting remedy.
  result.verdict.judgement.message = worker.why;
  result.verdict.evidence.emplace_back("its trace is damaged and is not shown");
  result.problems.push_back(StrCat("error: ", worker.why));
  return result;
}

void Print(const Inspected& worker, std::size_t top, std::size_t workers, std::ostream& out) {
  out << WithoutControls(worker.worker);
  if (workers > 1 && worker.has_trace)
    out << "   begins " << FormatDuration(Nanos{worker.shift_ns}) << " after the first";
  out << "\n";
  const analysis::Judgement& judged = worker.verdict.judgement;
  const OutcomeInfo& outcome = Describe(judged.outcome);
  out << "verdict: " << outcome.name;
  if (!judged.message.empty()) out << ", " << WithoutControls(judged.message);
  out << "\n";
  if (judged.outcome != Outcome::kOk) out << "what to do: " << outcome.remedy << "\n";
  for (const std::string& evidence : worker.verdict.evidence)
    out << "  " << WithoutControls(evidence) << "\n";
  if (WorthShowing(worker.processes, judged.outcome) || SaidMore(worker.processes))
    out << "\n" << ProcessTable(worker.processes);
  if (!worker.has_trace) return;
  out << "\n";
  std::vector<Row> rows = {{"PLANE", "LINES", "EVENTS", "FROM", "TO"}};
  for (std::size_t i = 0; i < worker.planes.size(); ++i) {
    const analysis::PlaneStats& plane = worker.planes[i];
    const bool empty = plane.events == 0;
    rows.push_back({std::string(plane.plane), StrCat(worker.lines[i]), StrCat(plane.events),
                    empty ? "-" : Time(plane.begin_ps), empty ? "-" : Time(plane.end_ps)});
  }
  out << AlignRows(rows);
  if (!worker.steps.empty()) {
    rows = {{"STEP", "COUNT", "NUMBERS", "MEDIAN", "SHORTEST", "LONGEST"}};
    for (const StepSummary& step : worker.steps)
      rows.push_back({step.name, StrCat(step.lengths_ps.size()), StrCat(step.first, "-", step.last),
                      Median(step.lengths_ps), Time(step.lengths_ps.front()),
                      Time(step.lengths_ps.back())});
    out << "\n" << AlignRows(rows);
  }
  for (const analysis::PlaneStats& plane : worker.planes) {
    if (plane.kinds.empty() || top == 0) continue;
    rows = {{"SELF", "TOTAL", "COUNT", "AVERAGE", StrCat("EVENT OF ", plane.plane)}};
    for (std::size_t i = 0; i < std::min(top, plane.kinds.size()); ++i) {
      const analysis::EventStats& kind = plane.kinds[i];
      rows.push_back({Time(kind.self_ps), Time(kind.total_ps), StrCat(kind.count),
                      Time(kind.total_ps / static_cast<std::int64_t>(kind.count)),
                      CutUtf8(kind.name, kMaxNameBytes)});
    }
    out << "\n" << AlignRows(rows);
    if (plane.kinds.size() > top) out << "... " << plane.kinds.size() - top << " more kinds\n";
  }
  for (const std::string& problem : worker.problems) out << "\n" << WithoutControls(problem);
  if (!worker.problems.empty()) out << "\n";
}

Json ToJson(const Inspected& worker) {
  Json planes = Json::array(), steps = Json::array();
  for (std::size_t i = 0; i < worker.planes.size(); ++i) {
    Json plane = StatsToJson(worker.planes[i]);
    plane["lines"] = worker.lines[i];
    planes.push_back(std::move(plane));
  }
  for (const StepSummary& step : worker.steps) {
    steps.push_back({{"name", step.name},
                     {"count", step.lengths_ps.size()},
                     {"first", step.first},
                     {"last", step.last},
                     {"medianPs", step.lengths_ps[step.lengths_ps.size() / 2]},
                     {"minPs", step.lengths_ps.front()},
                     {"maxPs", step.lengths_ps.back()}});
  }
  const analysis::Judgement& judged = worker.verdict.judgement;
  const OutcomeInfo& outcome = Describe(judged.outcome);
  return {{"worker", worker.worker},
          {"shiftNs", worker.shift_ns},
          {"verdict",
           {{"outcome", outcome.name},
            {"message", judged.message},
            {"remedy", judged.outcome == Outcome::kOk ? "" : outcome.remedy},
            {"retryable", outcome.retryable},
            {"evidence", worker.verdict.evidence}}},
          {"processes", ProcessesJson(worker.processes)},
          {"planes", std::move(planes)},
          {"steps", std::move(steps)},
          {"problems", worker.problems}};
}

absl::StatusOr<std::vector<Inspected>> InspectAll(const std::vector<OpenTrace>& traces,
                                                  const InspectFlags& flags) {
  ASSIGN_OR_RETURN(AlignedTraces aligned, convert::AlignTraces(traces));
  const std::optional<v1::Manifest> manifest = FindManifest(flags.location, flags.storage_config);
  std::vector<Inspected> workers;
  std::set<std::string> with_trace;
  for (const WorkerTrace& trace : aligned.workers) {
    absl::StatusOr<Inspected> worker = Inspect(trace, flags);
    if (absl::IsDataLoss(worker.status()) && aligned.workers.size() > 1) {
      aligned.left_out.push_back({trace.worker, MessageOf(worker.status())});
      continue;
    }
    RETURN_IF_ERROR(worker.status());
    with_trace.insert(trace.worker);
    workers.push_back(*std::move(worker));
  }
  if (workers.empty() && !aligned.left_out.empty()) return aligned.left_out.front().Error();
  Warn(aligned.left_out);
  for (const convert::LeftOut& worker : aligned.left_out) {
    with_trace.insert(worker.worker);
    workers.push_back(Unreadable(worker));
  }
  if (!manifest) return workers;
  for (const v1::ManifestWorker& worker : manifest->workers()) {
    if (!with_trace.contains(worker.name())) workers.push_back(Missing(worker));
  }
  return workers;
}

}  // namespace

void AddInspectFlags(CLI::App& command, InspectFlags& flags) {
  AddPlaceArgument(command, flags.location);
  command.add_option("--top", flags.top, "how many kinds of events to show of each plane")
      ->capture_default_str();
  command.add_option("--plane", flags.plane, "show only planes with this text in their name");
  command.add_flag("--expect-device", flags.expect_device,
                   "the job uses an accelerator: a trace without one is incomplete");
  AddOutputFlag(command, flags.output, "; json has all kinds of events");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "The first lines show whether the trace is complete and, if not, why and what to do.\n"
      "Examples:\n"
      "  strobe inspect /nfs/logs\n"
      "  strobe inspect gs://bucket/logs/plugins/profile/RUN --plane GPU --top 30\n"
      "  strobe inspect worker-0.xplane.pb --output json | jq '.[0].steps'\n"
      "Exit code: 0 shown, 1 the traces cannot be read, 2 a flag is wrong.");
}

int RunInspect(const InspectFlags& flags) {
  const absl::StatusOr<std::vector<OpenTrace>> traces =
      OpenTraces(flags.location, flags.storage_config);
  if (!traces.ok()) return Complain(traces.status());
  const absl::StatusOr<std::vector<Inspected>> workers = InspectAll(*traces, flags);
  // The whole text is made before any of it is printed. Names refer to the mapped files, so that a
  // file that is changed meanwhile would show garbage.
  std::ostringstream out;
  if (workers.ok() && flags.output == "json") {
    Json all = Json::array();
    for (const Inspected& worker : *workers) all.push_back(ToJson(worker));
    // The profiled program chose the names. JSON must be UTF-8, so that other bytes are replaced.
    out << JsonText(all, 2) << "\n";
  } else if (workers.ok()) {
    for (std::size_t i = 0; i < workers->size(); ++i) {
      if (i > 0) out << "\n";
      Print((*workers)[i], flags.top, traces->size(), out);
    }
  }
  if (const absl::Status status = convert::Unchanged(*traces, workers.status()); !status.ok())
    return Complain(status);
  std::cout << out.str();
  return kExitOk;
}

}  // namespace strobe::cli
