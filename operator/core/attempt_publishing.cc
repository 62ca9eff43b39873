#include "operator/core/attempt_publishing.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/strings.h"

namespace strobe {
namespace {

using std::chrono::seconds;

constexpr Nanos kOneWorkerTimeout = seconds(20);
// A job whose pods have all gone must not cost a timeout for each of its workers.
constexpr Nanos kTotalTimeout = seconds(60);

// Workers that wrote a trace, the best last: the run exists for them, and their identity is allowed
// to write to it.
std::vector<std::size_t> CandidatesOf(const std::vector<Member>& members) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].result.report.url().empty()) candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return Describe(members[a].result.outcome).badness >
           Describe(members[b].result.outcome).badness;
  });
  return candidates;
}

}  // namespace

AttemptPublishing::AttemptPublishing(AttemptState& state, const OwnedTasks& tasks,
                                     std::function<void()> done)
    : state_(state), tasks_(tasks), done_(std::move(done)) {}

void AttemptPublishing::Begin() {
  const absl::StatusOr<std::string> manifest =
      ManifestJson(ComposeManifest(state_.spec, state_.result));
  if (!manifest.ok()) {
    state_.result.manifest_error = MessageOf(manifest.status());
    return done_();
  }
  request_.set_logdir(state_.spec.logdir);
  request_.set_run(state_.result.run);
  request_.set_manifest(*manifest);
  candidates_ = CandidatesOf(state_.members);
  give_up_ = state_.clock.MonoNow() + kTotalTimeout;
  AskNext();
}

void AttemptPublishing::AskNext() {
  if (candidates_.empty() || state_.clock.MonoNow() >= give_up_) return done_();
  Worker& worker = *state_.members[candidates_.back()].worker;
  candidates_.pop_back();
  worker.Publish(request_, kOneWorkerTimeout,
                 tasks_.OnExecutor([this](const absl::StatusOr<v1::PublishResponse>& answer) {
                   OnPublished(answer);
                 }));
}

void AttemptPublishing::OnPublished(const absl::StatusOr<v1::PublishResponse>& answer) {
  if (answer.ok()) {
    state_.result.manifest_url = answer->url();
    state_.result.manifest_error.clear();
    return done_();
  }
  state_.result.manifest_error = MessageOf(answer.status());
  // Another capture's manifest is in the way, and would be in the way of the other workers too.
  if (absl::IsAlreadyExists(answer.status())) return done_();
  AskNext();
}

}  // namespace strobe
