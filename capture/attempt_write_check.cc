#include "capture/attempt_write_check.h"

#include <utility>

#include "collector/store/logdir.h"
#include "common/base/strings.h"

namespace strobe::capture {
namespace {

constexpr Nanos kTimeout = std::chrono::seconds(20);  // For each call, as for a manifest.

Outcome OutcomeOfWrite(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)
             ? Outcome::kUploadDenied
             : Outcome::kUploadFailed;
}

}  // namespace

AttemptWriteTest::AttemptWriteTest(AttemptState& state, const OwnedTasks& tasks,
                                   std::function<void()> changed)
    : state_(state), tasks_(tasks), changed_(std::move(changed)) {}

void AttemptWriteTest::Begin() {
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    Member& member = state_.members[i];
    if (member.state == MemberState::kReady)
      Write(i);
    else if (member.state != MemberState::kEnded)
      state_.End(member, Outcome::kWorkerLost,
                 "its sidecar claims to be recording for this request, which records nothing");
  }
  if (in_flight_ == 0) changed_();
}

// Each worker writes into a run of its own. In a shared run it would find the object that another
// worker wrote, and would not have to write.
std::string AttemptWriteTest::RunOf(std::size_t index) const {
  return StrCat(state_.result.run, "_preflight_", index);
}

void AttemptWriteTest::Write(std::size_t index) {
  v1::Manifest manifest;
  manifest.set_format(1);
  // Reclaim deletes only what carries this id.
  manifest.set_capture_id(state_.result.capture_id);
  manifest.set_run(RunOf(index));
  manifest.set_result("Failed");
  manifest.set_message("a test of writing; nothing was recorded, and this file can be deleted");
  v1::PublishRequest request;
  request.set_logdir(state_.spec.logdir);
  request.set_run(RunOf(index));
  Member& member = state_.members[index];
  const absl::StatusOr<std::string> json = ManifestJson(std::move(manifest));
  if (!json.ok()) return state_.End(member, Outcome::kUploadFailed, MessageOf(json.status()));
  request.set_manifest(*json);
  ++in_flight_;
  member.worker->Publish(
      request, kTimeout,
      tasks_.OnExecutor([this, index](const absl::StatusOr<v1::PublishResponse>& answer) {
        OnWritten(index, answer);
      }));
}

void AttemptWriteTest::OnWritten(std::size_t index,
                                 const absl::StatusOr<v1::PublishResponse>& answer) {
  Member& member = state_.members[index];
  if (!answer.ok() && member.state != MemberState::kEnded) {
    state_.End(
        member, OutcomeOfWrite(answer.status()),
        StrCat("writing a test object to ", state_.spec.logdir, ": ", MessageOf(answer.status())));
  }
  // Also after a failure: a store may have written an object and failed to confirm it.
  v1::ReclaimRequest request;
  request.set_capture_id(state_.result.capture_id);
  request.set_logdir(state_.spec.logdir);
  request.set_run(RunOf(index));
  member.worker->Reclaim(
      request, kTimeout,
      tasks_.OnExecutor([this, index](const absl::StatusOr<v1::ReclaimResponse>& deleted) {
        OnDeleted(index, deleted);
      }));
}

void AttemptWriteTest::OnDeleted(std::size_t index,
                                 const absl::StatusOr<v1::ReclaimResponse>& answer) {
  Member& member = state_.members[index];
  --in_flight_;
  // A worker that cannot delete does not fail the test, because captures delete nothing.
  if (member.state != MemberState::kEnded) {
    state_.End(member, Outcome::kOk,
               answer.ok()
                   ? std::string()
                   : StrCat("it can write but could not delete the test object ",
                            storage::ManifestKey(RunOf(index)), ": ", MessageOf(answer.status())));
  }
  changed_();
}

}  // namespace strobe::capture
