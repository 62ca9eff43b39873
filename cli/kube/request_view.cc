#include "cli/kube/request_view.h"

#include <algorithm>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "common/text/json.h"
#include "common/text/quantity.h"

namespace strobe::cluster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::string Or(const std::string& text, const std::string& otherwise) {
  return text.empty() ? otherwise : text;
}

std::string Workers(const objects::RequestStatus& status) {
  return status.attempt == 0 ? "-" : StrCat(status.ok, "/", status.matched);
}

std::string SkewText(const objects::RequestStatus& status) {
  return StrCat(status.skew, status.skew_error.empty() ? ", clocks not measured"
                                                       : StrCat(" +-", status.skew_error));
}

// One line for each cause, with what to do about it: the table of outcomes is the one that the
// operator uses.
std::string Remedies(const objects::RequestStatus& status) {
  std::string text;
  for (const objects::StatusCause& cause : status.causes) {
    const OutcomeInfo& info = Describe(OutcomeOfName(cause.cause));
    if (info.outcome == Outcome::kUnknown) continue;  // A later operator has more causes.
    text += StrCat(cause.cause, " (", cause.workers, cause.workers == 1 ? " worker" : " workers",
                   "): ", info.remedy, "\n");
  }
  return text;
}

std::string OutcomeLines(const objects::RequestStatus& status) {
  std::string text;
  for (const objects::StatusOutcome& outcome : status.outcomes) {
    text +=
        StrCat("  ", outcome.pod, ": ", outcome.cause,
               outcome.message.empty() ? "" : StrCat(": ", outcome.message),
               outcome.lateness.empty() ? "" : StrCat(" (lateness ", outcome.lateness, ")"), "\n");
  }
  std::size_t others = 0;
  for (const objects::StatusCause& cause : status.causes) others += cause.workers;
  if (others > status.outcomes.size())
    text += StrCat("  and ", others - status.outcomes.size(),
                   " more workers; the run's strobe.json lists all\n");
  return text;
}

std::string StepsText(const objects::RequestStatus& status) {
  return StrCat("complete on all workers: steps ", status.first_step, " to ", status.last_step,
                " of ", status.steps_loop,
                status.steps_spread.empty()
                    ? ""
                    : StrCat("; the workers began them within ", status.steps_spread));
}

// The names that a line of progress shows before it only counts.
constexpr std::size_t kMaxShownNames = 8;

std::string StateLine(const capture::WorkersInState& in) {
  const std::size_t shown = std::min(in.names.size(), kMaxShownNames);
  std::string text = StrCat("  ", in.state, " (", in.workers, ")");
  for (std::size_t i = 0; i < shown; ++i) text += StrCat(i == 0 ? ": " : ", ", in.names[i]);
  if (shown > 0 && in.workers > shown) text += StrCat(" and ", in.workers - shown, " more");
  return text;
}

// What it does now, in one line; empty once it is finished.
std::string Headline(const objects::ProfileRequest& request, WallTime now) {
  const kube::Condition* found = objects::FindCondition(request.status, condition::kSucceeded);
  if (found == nullptr) return "the operator has not processed it yet";
  const kube::Condition& state = *found;
  if (state.status != kube::ConditionStatus::kUnknown) return "";
  std::string text = state.reason;
  if (!state.message.empty()) text += StrCat(": ", state.message);
  const objects::RequestStatus& status = request.status;
  if (status.queue_position > 0) return text;
  if (status.attempt > 0 && !status.retry_time)
    text += StrCat("; ", status.armed, "/", status.matched, " workers armed");
  if (status.retry_time && *status.retry_time > now)
    text +=
        StrCat("; again in ", FormatDuration(std::chrono::ceil<seconds>(*status.retry_time - now)));
  else if (state.reason == "Armed" && status.start_time && *status.start_time > now)
    text += StrCat(", starts in ",
                   FormatDuration(std::chrono::ceil<seconds>(*status.start_time - now)));
  return text;
}

}  // namespace

bool Succeeded(const objects::ProfileRequest& request) {
  const kube::Condition* succeeded = objects::FindCondition(request.status, condition::kSucceeded);
  return succeeded != nullptr && succeeded->status == kube::ConditionStatus::kTrue;
}

std::string ProgressText(const objects::ProfileRequest& request, WallTime now) {
  std::string text = Headline(request, now);
  for (const capture::WorkersInState& in : request.status.progress) text += "\n" + StateLine(in);
  return text;
}

std::string ResultText(const objects::ProfileRequest& request, WallTime now) {
  std::string headline = Headline(request, now);
  if (!headline.empty()) return headline;
  const kube::Condition& end = *objects::FindCondition(request.status, condition::kSucceeded);
  return end.message.empty() ? end.reason : StrCat(end.reason, ": ", end.message);
}

std::string VerdictText(const objects::ProfileRequest& request) {
  const objects::RequestStatus& status = request.status;
  std::string text;
  if (!objects::IsFinished(status)) {
    for (const capture::WorkersInState& in : status.progress) text += StateLine(in) + "\n";
    return text;
  }
  if (status.attempt > 0) {
    text = StrCat(status.ok, " of ", status.matched, " workers Ok\n", OutcomeLines(status),
                  Remedies(status));
  }
  if (!status.skew.empty()) text += StrCat("skew: ", SkewText(status), "\n");
  if (!status.steps_loop.empty()) text += StepsText(status) + "\n";
  const kube::Condition* synchronized = objects::FindCondition(status, condition::kSynchronized);
  if (synchronized != nullptr && !request.capture.collects_evidence && status.attempt > 0 &&
      !synchronized->message.empty())
    text += StrCat(
        "synchronized: ", synchronized->status == kube::ConditionStatus::kTrue ? "yes, " : "no, ",
        synchronized->message, "\n");
  if (!status.report.empty()) text += StrCat("report: ", status.report, "\n");
  if (HasVerdict(request)) text += StallText(request);
  if (!status.run.empty() && !request.capture.collects_evidence)
    text += StrCat("run: ", status.run, ", ", RoundedQuantity(status.bytes),
                   "\nopen it: strobe view ", status.run, "\n");
  if (!status.viewer.empty()) text += StrCat("see it: ", status.viewer, "\n");
  return text;
}

bool HasVerdict(const objects::ProfileRequest& request) {
  return !request.status.stall.kind.empty();
}

std::string StallText(const objects::ProfileRequest& request) {
  const objects::RequestStatus& status = request.status;
  std::string text = status.stall.verdict + "\n";
  for (const std::string& line : status.stall.details) text += line + "\n";
  const kube::Condition* stalled = objects::FindCondition(status, condition::kStalled);
  if (stalled != nullptr && stalled->message != status.stall.verdict)
    text += StrCat(stalled->message, "\n");  // It was withdrawn.
  if (!status.run.empty()) text += StrCat("evidence: ", status.run, "\n");
  return text;
}

std::string StallJson(const objects::ProfileRequest& request) {
  const objects::StatusStall& stall = request.status.stall;
  nlohmann::ordered_json object = {{"class", stall.kind},
                                   {"confidence", stall.confidence},
                                   {"verdict", stall.verdict},
                                   {"details", stall.details},
                                   {"culprits", nlohmann::ordered_json::array()},
                                   {"request", request.name},
                                   {"run", request.status.run}};
  for (const capture::StallCulprit& culprit : stall.culprits) {
    object["culprits"].push_back({{"rank", culprit.rank},
                                  {"pod", culprit.pod},
                                  {"node", culprit.node},
                                  {"line", culprit.line}});
  }
  return JsonText(object, 2);
}

std::string AgeText(Nanos age) {
  if (age < minutes(2)) return StrCat(std::max<std::int64_t>(age / seconds(1), 0), "s");
  if (age < hours(3)) return StrCat(age / minutes(1), "m");
  if (age < hours(48)) return StrCat(age / hours(1), "h");
  return StrCat(age / hours(24), "d");
}

std::vector<std::vector<std::string>> RequestRows(std::vector<objects::ProfileRequest> requests,
                                                  bool all_namespaces, WallTime now) {
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.created > b.created; });
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "RESULT", "WORKERS", "SKEW", "SIZE", "AGE", "RUN"}};
  if (all_namespaces) rows[0].insert(rows[0].begin(), "NAMESPACE");
  for (const objects::ProfileRequest& request : requests) {
    const objects::RequestStatus& status = request.status;
    const kube::Condition* state = objects::FindCondition(status, condition::kSucceeded);
    rows.push_back({request.name, state == nullptr ? "-" : state->reason, Workers(status),
                    Or(status.skew, "-"), status.bytes == 0 ? "-" : RoundedQuantity(status.bytes),
                    AgeText(now - request.created), Or(status.run, "-")});
    if (all_namespaces) rows.back().insert(rows.back().begin(), request.ns);
  }
  return rows;
}

std::string RunAfterDeletion(const objects::ProfileRequest& request) {
  const std::string& run = request.status.run;
  if (run.empty()) return "";
  if (request.reclaim) return StrCat("its run is deleted with it: ", run);
  return StrCat("its run is kept: ", run, "; delete it with: strobe rm ", run);
}

}  // namespace strobe::cluster
