#include "capture/attempt_publishing.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "capture/attempt_result.h"
#include "collector/store/logdir.h"
#include "common/base/strings.h"

namespace strobe::capture {
namespace {

using std::chrono::seconds;

constexpr Nanos kOneWorkerTimeout = seconds(20);
// A job whose pods have all gone must not cost a timeout for each of its workers.
constexpr Nanos kTotalTimeout = seconds(60);

// Workers that wrote a trace, the best last: the run exists for them, and their identity is allowed
// to write to it. If evidence was asked for, these are all that told any.
std::vector<std::size_t> CandidatesOf(const std::vector<Member>& members, bool of_evidence) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const WorkerResult& result = members[i].result;
    if (of_evidence ? result.outcome == Outcome::kOk : !result.report.url().empty())
      candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return Describe(members[a].result.outcome).badness >
           Describe(members[b].result.outcome).badness;
  });
  return candidates;
}

// True if the traces are of no use: none has an event, and the next attempt writes new ones.
bool IsWorthless(const AttemptState& state) {
  return RetryAfter(state.spec, state.result).has_value() &&
         std::all_of(state.members.begin(), state.members.end(), [](const Member& member) {
           return member.result.report.url().empty() || member.result.report.events() == 0;
         });
}

// The name of the run that the workers wrote into: the planned one, or, if that was taken, the one
// that most of them report.
std::string RunOf(const std::vector<Member>& members, const std::string& planned) {
  std::map<std::string, int> votes;
  for (const Member& member : members) {
    const std::string run = storage::RunOfTraceUrl(member.result.report.url());
    if (run == planned) return planned;
    if (!run.empty()) ++votes[run];
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? planned : most->first;
}

}  // namespace

AttemptPublishing::AttemptPublishing(AttemptState& state, const OwnedTasks& tasks,
                                     Reporter* reporter, std::function<void()> done)
    : state_(state), tasks_(tasks), reporter_(reporter), done_(std::move(done)) {}

void AttemptPublishing::Begin() {
  state_.result.run = RunOf(state_.members, state_.result.run);
  candidates_ = CandidatesOf(state_.members, state_.spec.collects_evidence);
  give_up_ = state_.clock.MonoNow() + kTotalTimeout;
  if (IsWorthless(state_)) return Remove();
  // A cancelled capture has no report, because the user who cancelled it waits for its end.
  if (reporter_ == nullptr || candidates_.empty() || state_.result.cancelled ||
      state_.spec.collects_evidence)
    return PublishManifest();
  waits_for_report_ = true;
  reporter_->Make(OrderOf(),
                  tasks_.OnExecutor([this](JobReport report) { OnReport(std::move(report)); }));
  tasks_.PostAfter(kReportPatience, [this] {
    OnReport({.headline = "not decidable: the report was not made in time"});
  });
}

ReportOrder AttemptPublishing::OrderOf() const {
  std::map<std::string, std::shared_ptr<Worker>> sidecars;
  for (const Member& member : state_.members) sidecars[member.result.target.name] = member.worker;
  ReportOrder order{.capture_id = state_.result.capture_id,
                    .run = state_.result.run,
                    .patience = kDigestPatience};
  for (const WorkerResult& worker : state_.result.workers) {
    ReportedWorker& reported = order.workers.emplace_back();
    reported.name = worker.target.file;
    reported.rank = worker.target.rank;
    reported.role = worker.target.role;
    reported.group = worker.group;
    reported.error = worker.error;
    reported.clock_correction = worker.offset - Nanos{worker.report.plan().clock_offset_ns()};
    if (worker.report.url().empty()) {
      reported.missing = StrCat("it has no trace: ", Name(worker.outcome));
      continue;
    }
    // See SplitByProcess.
    const std::string& name = worker.target.name;
    reported.sidecar = sidecars[worker.local_rank < 0 ? name : name.substr(0, name.rfind('/'))];
    reported.trace = worker.report.plan().worker();
    if (reported.sidecar == nullptr) reported.missing = "its sidecar is no longer available";
  }
  return order;
}

void AttemptPublishing::OnReport(JobReport report) {
  if (!std::exchange(waits_for_report_, false)) return;
  state_.result.report = std::move(report);
  give_up_ = state_.clock.MonoNow() + kTotalTimeout;
  PublishManifest();
}

void AttemptPublishing::PublishManifest() {
  const absl::StatusOr<std::string> manifest =
      ManifestJson(ComposeManifest(state_.spec, state_.result));
  if (!manifest.ok()) {
    state_.result.manifest_error = MessageOf(manifest.status());
    return done_();
  }
  request_.set_logdir(state_.spec.logdir);
  request_.set_run(state_.result.run);
  request_.set_manifest(*manifest);
  // Sidecars of the previous version accept at most 13 MiB per request.
  std::string& json = state_.result.report.json;
  if (manifest->size() + json.size() <= kMaxManifestBytes) request_.set_report(std::move(json));
  json.clear();
  request_.set_evidence(std::exchange(state_.result.stall.json, {}));
  Publish();
}

// Null when no worker or no time is left.
Worker* AttemptPublishing::NextWorker() {
  if (candidates_.empty() || state_.clock.MonoNow() >= give_up_) return nullptr;
  Worker* worker = state_.members[candidates_.back()].worker.get();
  candidates_.pop_back();
  return worker;
}

void AttemptPublishing::Remove() {
  Worker* worker = NextWorker();
  if (worker == nullptr) return done_();
  v1::ReclaimRequest request;
  request.set_capture_id(state_.result.capture_id);
  request.set_logdir(state_.spec.logdir);
  request.set_run(state_.result.run);
  worker->Reclaim(request, kOneWorkerTimeout,
                  tasks_.OnExecutor([this](const absl::StatusOr<v1::ReclaimResponse>& answer) {
                    if (!answer.ok()) return Remove();
                    state_.result.bytes = 0;
                    done_();
                  }));
}

void AttemptPublishing::Publish() {
  Worker* worker = NextWorker();
  if (worker == nullptr) return done_();
  worker->Publish(request_, kOneWorkerTimeout,
                  tasks_.OnExecutor([this](const absl::StatusOr<v1::PublishResponse>& answer) {
                    OnPublished(answer);
                  }));
}

void AttemptPublishing::OnPublished(const absl::StatusOr<v1::PublishResponse>& answer) {
  if (answer.ok()) {
    state_.result.manifest_url = answer->url();
    state_.result.report.url = answer->report_url();
    state_.result.stall.url = answer->evidence_url();
    if (!state_.result.stall.url.empty()) state_.result.bytes += request_.evidence().size();
    state_.result.manifest_error.clear();
    return done_();
  }
  state_.result.manifest_error = MessageOf(answer.status());
  // Another capture's manifest is in the way, and would be in the way of the other workers too.
  if (absl::IsAlreadyExists(answer.status())) return done_();
  Publish();
}

}  // namespace strobe::capture
