#include "capture/attempt_evidence.h"

#include <algorithm>
#include <utility>

#include "capture/answer_limits.h"
#include "common/base/guard.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"

namespace strobe::capture {
namespace {

constexpr Nanos kKeepTimeout = std::chrono::seconds(10);
constexpr std::uint64_t kMinShare = 64 << 10;  // Sidecars refuse less.
constexpr std::size_t kMaxAsked = AttemptEvidence::kMaxJobBytes / kMinShare;
// Each answer of RAS is about the whole job, so a few are enough.
constexpr std::size_t kAskedForRas = 2;

Outcome OutcomeOfEvidence(const absl::Status& status) {
  if (status.ok()) return Outcome::kOk;
  if (absl::IsUnimplemented(status)) return Outcome::kVersionMismatch;
  return absl::IsFailedPrecondition(status) ? Outcome::kNoSource : Outcome::kUnreachable;
}

// A verdict about nothing, if the judge fails.
StallReport Unjudged(const absl::Status& why) {
  StallReport report;
  report.kind = "Unknown";
  report.confidence = "CannotTell";
  report.text = StrCat("nobody is named: the evidence could not be judged: ", MessageOf(why), "\n");
  return report;
}

}  // namespace

AttemptEvidence::AttemptEvidence(AttemptState& state, const OwnedTasks& tasks, Means means,
                                 Hooks hooks)
    : state_(state), tasks_(tasks), means_(means), hooks_(std::move(hooks)) {}

// The bytes for each worker; 0 if there is not enough memory.
std::uint64_t AttemptEvidence::TakeMemory(std::size_t workers) {
  std::uint64_t share = std::clamp<std::uint64_t>(kMaxJobBytes / std::max<std::size_t>(workers, 1),
                                                  kMinShare, kMaxEvidenceBytes);
  if (means_.memory == nullptr) return share;
  for (; share >= kMinShare; share /= 2) {
    held_ = means_.memory->Take(share * workers);
    if (held_ != nullptr) return share;
  }
  return 0;
}

void AttemptEvidence::Begin() {
  std::size_t usable = 0;
  for (const Member& member : state_.members) {
    const Target& target = member.result.target;
    usable += target.usable() ? 1 : 0;
    WorkerEvidence& evidence = evidence_.emplace_back();
    evidence.name = target.name;
    evidence.file = target.file;
    evidence.address = target.address;
    evidence.pod = target.pod;
    evidence.node = target.node;
    evidence.rank = target.rank;
    evidence.processes = std::max(target.processes, target.expected_processes);
  }
  const std::uint64_t share = TakeMemory(std::min(usable, kMaxAsked));
  std::size_t asked = 0;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    Member& member = state_.members[i];
    const Target& target = member.result.target;
    if (!target.usable())
      state_.End(member, *target.outcome, target.message);
    else if (share == 0)
      state_.End(member, Outcome::kBusy, "the evidence of other jobs is being read");
    else if (asked == kMaxAsked)
      state_.End(member, Outcome::kTruncated,
                 StrCat("only the first ", kMaxAsked,
                        " workers by rank are asked, because there is no memory for the evidence "
                        "of more; ask about others by their labels (target.selector)"));
    else
      Ask(i, share, asked++ < kAskedForRas);
  }
  hooks_.changed();
}

void AttemptEvidence::Ask(std::size_t index, std::uint64_t bytes, bool with_ras) {
  Member& member = state_.members[index];
  member.worker = means_.workers.Connect(member.result.target);
  v1::ReadEvidenceRequest request;
  request.set_max_bytes(bytes);
  if (!with_ras) {
    for (const v1::EvidenceKind kind :
         {v1::EVIDENCE_STACKS, v1::EVIDENCE_COLLECTIVES, v1::EVIDENCE_SOCKETS})
      request.add_kinds(kind);
  }
  member.worker->ReadEvidence(
      request, with_ras ? kRasTimeout : kAnswerTimeout,
      tasks_.OnExecutor([this, index](absl::StatusOr<v1::ReadEvidenceResponse> answer) {
        OnAnswer(index, std::move(answer));
      }));
}

void AttemptEvidence::OnAnswer(std::size_t index, absl::StatusOr<v1::ReadEvidenceResponse> answer) {
  Member& member = state_.members[index];
  if (member.state == MemberState::kEnded) return;  // The attempt was cancelled meanwhile.
  const Outcome outcome = OutcomeOfEvidence(answer.status());
  WorkerEvidence& evidence = evidence_[index];
  TakeAnswer(std::move(answer), evidence);
  state_.End(member, outcome, evidence.notes.empty() ? evidence.missing : evidence.notes.front());
  hooks_.changed();
}

void AttemptEvidence::Judge() {
  auto order = std::make_shared<JobEvidenceOrder>();
  order->capture_id = state_.result.capture_id;
  order->run = state_.result.run;
  order->looked_at = state_.clock.WallNow();
  order->workers = std::exchange(evidence_, {});
  for (std::size_t i = 0; i < order->workers.size(); ++i) {
    const WorkerResult& result = state_.members[i].result;
    if (result.outcome == Outcome::kOk) continue;
    order->workers[i].missing =
        result.message.empty() ? std::string(Name(result.outcome)) : result.message;
  }
  const auto done = tasks_.OnExecutor(
      [this](std::shared_ptr<StallReport> report, std::shared_ptr<JobEvidenceOrder> judged) {
        OnJudged(std::move(*report), *judged);
      });
  means_.judging.Post([order, done] {
    auto report = std::make_shared<StallReport>();
    const absl::Status judged = RunGuarded("evidence", [&] { *report = ReportStall(*order); });
    if (!judged.ok()) *report = Unjudged(judged);
    done(report, order);
  });
}

void AttemptEvidence::OnJudged(StallReport report, JobEvidenceOrder& order) {
  state_.result.stall = std::move(report);
  evidence_ = std::move(order.workers);
  hooks_.judged();
  ++keeping_;  // So that `kept` is called only after the last call was made.
  for (std::size_t i = 0; i < evidence_.size(); ++i) Keep(i);
  OnKept(evidence_.size(), 0, absl::CancelledError(""));
}

// Lets the worker write its files.
void AttemptEvidence::Keep(std::size_t index) {
  WorkerEvidence& evidence = evidence_[index];
  v1::PublishRequest request;
  std::uint64_t bytes = 0;
  for (v1::EvidenceFile& file : evidence.files) {
    bytes += file.content().size();
    if (!file.content().empty()) *request.add_evidence_files() = std::move(file);
  }
  evidence.files.clear();
  if (bytes == 0 || state_.members[index].worker == nullptr) return;
  request.set_logdir(state_.spec.logdir);
  request.set_run(state_.result.run);
  request.set_evidence_worker(evidence.file);
  ++keeping_;
  state_.members[index].worker->Publish(
      request, kKeepTimeout,
      tasks_.OnExecutor([this, index, bytes](const absl::StatusOr<v1::PublishResponse>& answer) {
        OnKept(index, bytes, answer);
      }));
}

void AttemptEvidence::OnKept(std::size_t index, std::uint64_t bytes,
                             const absl::StatusOr<v1::PublishResponse>& answer) {
  if (answer.ok() && answer->evidence_written() > 0) state_.result.bytes += bytes;
  if (!answer.ok() && index < state_.members.size())
    state_.result.stall.not_kept =
        StrCat(state_.members[index].result.target.name, ": ", MessageOf(answer.status()));
  if (--keeping_ > 0) return;
  held_.reset();
  evidence_.clear();
  hooks_.kept();
}

}  // namespace strobe::capture
