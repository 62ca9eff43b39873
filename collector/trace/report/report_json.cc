#include "collector/trace/report/report_json.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/advice.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/wait_map.h"
#include "common/base/enum_names.h"

namespace strobe::report {
namespace {

using ReportJson = nlohmann::ordered_json;

ReportJson HeldUpJson(const HeldUp& held_up) {
  return {{"ns", held_up.ns},
          {"errorNs", held_up.error_ns},
          {"share", held_up.share},
          {"steps", held_up.steps}};
}

ReportJson LateJson(const Late& late) {
  ReportJson causes = ReportJson::array();
  for (const CauseShare& cause : late.causes)
    causes.push_back({{"cause", CauseName(cause.cause)},
                      {"ns", cause.ns},
                      {"errorNs", cause.error_ns},
                      {"share", cause.share}});
  return {{"longerNs", late.ns},        {"errorNs", late.error_ns},
          {"steps", late.steps},        {"lateSteps", late.late_steps},
          {"lateNs", late.late_ns},     {"persistent", late.persistent},
          {"causes", std::move(causes)}};
}

std::string_view VerdictName(Verdict verdict) {
  static constexpr EnumNames<Verdict, 5> kNames({{Verdict::kHoldsUp, "HoldsUp"},
                                                 {Verdict::kNobodyWaits, "NobodyWaits"},
                                                 {Verdict::kWithinClockErrors, "WithinClockErrors"},
                                                 {Verdict::kClockNotMeasured, "ClockNotMeasured"},
                                                 {Verdict::kNoCalls, "NoCalls"}});
  return kNames.Of(verdict);
}

// The number of the step in which each worker's own time exceeds the others' mean most.
std::vector<std::optional<std::int64_t>> LatestSteps(const Job& job) {
  std::vector<std::optional<std::int64_t>> numbers(job.workers.size());
  std::vector<double> most(job.workers.size(), 0);
  for (const JobStep& step : job.steps) {
    double sum = 0;
    for (const WorkerStep& worker : step.workers) sum += static_cast<double>(worker.OwnTotal());
    const double mean = sum / static_cast<double>(std::max<std::size_t>(step.workers.size(), 1));
    for (const WorkerStep& worker : step.workers) {
      const double longer = static_cast<double>(worker.OwnTotal()) - mean;
      if (longer <= most[worker.worker]) continue;
      most[worker.worker] = longer;
      numbers[worker.worker] = step.number;
    }
  }
  return numbers;
}

ReportJson StragglerJson(const Job& job, const Straggler& straggler,
                         const std::vector<std::optional<std::int64_t>>& latest_steps) {
  ReportJson json = LateJson(straggler.late);
  json["latestStep"] = digest::KnownOrNull(latest_steps[straggler.late.who]);
  json["worker"] = job.workers[straggler.late.who].name;
  json["verdict"] = VerdictName(straggler.verdict);
  json["evidence"] = straggler.evidence == Evidence::kDurations ? "durations" : "clocks";
  json["clockErrorNs"] =
      straggler.clock_error_ns ? ReportJson(*straggler.clock_error_ns) : ReportJson();
  json["heldUp"] = straggler.held_up ? HeldUpJson(*straggler.held_up) : ReportJson();
  return json;
}

ReportJson CallsJson(const Job& job, const Arrivals& arrivals) {
  ReportJson calls = ReportJson::array();
  for (const CallArrivals& call : arrivals.calls)
    calls.push_back(
        {{"communicator", job.communicators[call.communicator].name},
         {"name", job.types[call.type].name},
         {"calls", call.calls},
         {"undecided", call.undecided},
         {"waitedNs", call.waited_ns},
         {"mostOftenLast",
          call.times_last == 0 ? ReportJson() : ReportJson(job.workers[call.most_often_last].name)},
         {"timesLast", call.times_last}});
  return calls;
}

ReportJson WaitsJson(const Job& job, const Arrivals& arrivals) {
  ReportJson workers = ReportJson::array();
  for (std::size_t i = 0; i < std::min(arrivals.workers.size(), job.workers.size()); ++i) {
    const WorkerArrivals& worker = arrivals.workers[i];
    // A zero would say that nobody waited.
    const bool waits = worker.calls > 0 && (job.workers[i].on_common_clock || worker.decided > 0);
    workers.push_back(
        {{"worker", job.workers[i].name},
         {"calls", worker.calls},
         {"last", worker.last},
         {"waitedNs", waits ? ReportJson(worker.waited_ns) : ReportJson()},
         {"madeWaitNs", worker.decided > 0 ? ReportJson(worker.made_wait_ns) : ReportJson()}});
  }
  return workers;
}

ReportJson GroupsJson(const std::vector<GroupTime>& groups) {
  ReportJson rows = ReportJson::array();
  for (const GroupTime& group : groups)
    rows.push_back({{"kind", GroupKindName(group.kind)},
                    {"named", group.named},
                    {"communicators", group.communicators},
                    {"calls", group.calls},
                    {"inCallsNs", group.in_calls_ns},
                    {"waitedNs", group.waited_ns ? ReportJson(*group.waited_ns) : ReportJson()}});
  return rows;
}

ReportJson AdviceJson(const Job& job) {
  ReportJson rows = ReportJson::array();
  for (const Advice& advice : AdviceFor(job)) {
    const AdviceWords& words = WordsOf(advice.rule);
    rows.push_back({{"rule", words.name},
                    {"share", advice.share},
                    {"what", advice.what},
                    {"next", words.next},
                    {"link", words.link},
                    {"threshold", words.threshold},
                    {"source", words.source},
                    {"worker", job.workers[advice.worker].name},
                    {"step", advice.step ? ReportJson(*advice.step) : ReportJson()}});
  }
  return rows;
}

ReportJson StagesJson(const std::vector<StageTime>& stages) {
  ReportJson rows = ReportJson::array();
  for (const StageTime& stage : stages)
    rows.push_back({{"stage", stage.stage}, {"workers", stage.workers}, {"ownNs", stage.own_ns}});
  return rows;
}

ReportJson WaitMapJson(const Job& job, const WaitMap& map) {
  ReportJson workers = ReportJson::array(), steps = ReportJson::array();
  for (const std::uint32_t i : map.workers) workers.push_back(job.workers[i].name);
  for (const std::uint32_t i : map.steps) steps.push_back(job.steps[i].number);
  ReportJson waits = ReportJson::array(), errors = ReportJson::array();
  for (const auto& row : map.waits) {
    ReportJson row_waits = ReportJson::array(), row_errors = ReportJson::array();
    for (const std::optional<StepWait>& wait : row) {
      const bool measured = wait && wait->error_ns;
      row_waits.push_back(wait ? ReportJson(wait->waited_ns) : ReportJson());
      row_errors.push_back(measured ? ReportJson(*wait->error_ns) : ReportJson());
    }
    waits.push_back(std::move(row_waits));
    errors.push_back(std::move(row_errors));
  }
  return {{"workers", std::move(workers)},          {"steps", std::move(steps)},
          {"waitedNs", std::move(waits)},           {"errorNs", std::move(errors)},
          {"workersLeftOut", map.workers_left_out}, {"stepsLeftOut", map.steps_left_out}};
}

using ChangesJson = nlohmann::ordered_json;

ChangesJson ComparedRunJson(const ComparedRun& run) {
  return {{"workers", run.workers},
          {"steps", run.steps},
          {"loop", run.loop.empty() ? ChangesJson() : ChangesJson(run.loop)},
          {"stepsNs", run.step_ns}};
}

ChangesJson ChangeJson(const Change& change) {
  const bool told = change.smallest > 0;
  return {{"beforeNs", change.before},
          {"afterNs", change.after},
          {"differenceNs", change.difference()},
          {"errorNs", told ? ChangesJson(change.error) : ChangesJson()},
          {"smallestToldNs", told ? ChangesJson(change.smallest) : ChangesJson()},
          {"beforeN", change.before_n},
          {"afterN", change.after_n},
          {"verdict", VerdictName(change.verdict)}};
}

}  // namespace

nlohmann::ordered_json StragglersToJson(const Job& job, const StragglerReport& report) {
  const std::vector<std::optional<std::int64_t>> latest_steps = LatestSteps(job);
  ReportJson stragglers = ReportJson::array(), others = ReportJson::array();
  for (const Straggler& late : report.stragglers)
    stragglers.push_back(StragglerJson(job, late, latest_steps));
  for (const Straggler& late : report.not_decided)
    others.push_back(StragglerJson(job, late, latest_steps));
  return {{"headline", Headline(job, report)},
          {"workers", report.workers},
          {"steps", report.steps},
          {"stepNs", report.step_ns},
          {"heldUp", HeldUpJson(report.held_up)},
          {"likely", report.likely},
          {"stragglers", std::move(stragglers)},
          {"notDecided", std::move(others)},
          {"late", report.late_count},
          {"smallestToldNs", report.smallest_ns},
          {"slowdown", report.slowdown ? ReportJson(*report.slowdown) : ReportJson()},
          {"advice", AdviceJson(job)},
          {"groups", GroupsJson(report.groups)},
          {"stages", StagesJson(report.stages)},
          {"collectives", CallsJson(job, report.arrivals)},
          {"waits", WaitsJson(job, report.arrivals)},
          {"waitMap", WaitMapJson(job, ComputeWaitMap(job, report.arrivals))},
          {"unknown", report.unknown}};
}

nlohmann::ordered_json ComparisonToJson(const RunComparison& comparison, std::size_t max_ops) {
  ChangesJson parts = ChangesJson::object(), ops = ChangesJson::array();
  for (const PartChange& part : comparison.parts)
    parts[std::string(PartName(part.part))] = ChangeJson(part.time);
  for (const OpChange& op : comparison.ops) {
    if (ops.size() == max_ops) break;
    ChangesJson json = {{"name", op.name}, {"kind", digest::NameOf(op.kind)}};
    json.update(ChangeJson(op.self));
    json["verdict"] = VerdictName(op.verdict);
    json["beforeCalls"] = op.before_calls;
    json["afterCalls"] = op.after_calls;
    ops.push_back(std::move(json));
  }
  return {{"headline", Headline(comparison)},
          {"before", ComparedRunJson(comparison.before)},
          {"after", ComparedRunJson(comparison.after)},
          {"unit", comparison.of_steps ? "step" : "second"},
          {"step", comparison.of_steps ? ChangeJson(comparison.step) : ChangesJson()},
          {"parts", std::move(parts)},
          {"ops", std::move(ops)},
          {"opsLeftOut", comparison.ops.size() - std::min(comparison.ops.size(), max_ops)},
          {"unknown", comparison.unknown}};
}

}  // namespace strobe::report
