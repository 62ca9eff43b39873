#include "operator/request/stall_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/request/request_status.h"
#include "operator/request/target_pods.h"

namespace strobe::request {
namespace {

constexpr Nanos kDescribeTimeout = std::chrono::seconds(5);

// Whether the status has a verdict that may have to be withdrawn.
bool HoldsVerdict(const objects::RequestStatus& status, WallTime now) {
  const kube::Condition* stalled = objects::FindCondition(status, condition::kStalled);
  return stalled != nullptr && stalled->status == kube::ConditionStatus::kTrue &&
         now < status.completion_time.value_or(now) + StallWatch::kWatched;
}

// Whether the pod, or a container of it, began after that time.
bool BeganSince(const job::PodInfo& pod, WallTime time) {
  return (pod.created && *pod.created > time) ||
         std::any_of(pod.states.begin(), pod.states.end(), [time](const auto& state) {
           return state.ended_at && *state.ended_at >= time;
         });
}

// Whether the worker tells that a step of it began or ended after that time of our clock. One that
// tells nothing, because its processes have ended or count no steps, does not move.
bool TellsAStepSince(const capture::Preflight& answer, WallTime time) {
  const std::int64_t its_time =
      ToUnixNanos(time + (answer.clock ? answer.clock->offset : Nanos{0}));
  const auto& steps = answer.description.steps();
  return std::any_of(steps.begin(), steps.end(), [its_time](const v1::StepPace& pace) {
    return std::max(pace.began_ns(), pace.ended_ns()) > its_time;
  });
}

}  // namespace

// Callbacks share it, because they may come after the watch has forgotten it.
struct StallWatch::Round {
  Round(std::string of, MonoTime time) : uid(std::move(of)), began(time) {}

  const std::string uid;
  const MonoTime began;
  bool restarted = false;  // Not all that was looked at for the verdict is there any more.
  // Before they are asked all are in it; it keeps their connections until they have answered.
  std::vector<std::shared_ptr<capture::Worker>> workers{};
  Mutex mutex;
  std::size_t missing ABSL_GUARDED_BY(mutex) = 0;
  // Workers that have made a step since the verdict, and those that stand still.
  std::size_t moving ABSL_GUARDED_BY(mutex) = 0, stalled ABSL_GUARDED_BY(mutex) = 0;
};

absl::StatusOr<std::optional<Nanos>> StallWatch::Look(const std::string& key,
                                                      const objects::ProfileRequest& request) {
  if (!HoldsVerdict(request.status, deps_.clock.WallNow())) {
    Forget(key);
    return std::nullopt;
  }
  const std::shared_ptr<Round> round = Find(key, request.uid);
  if (round != nullptr) {
    bool answered = false, moves = false;
    {
      MutexLock lock(&round->mutex);
      answered = round->missing == 0;
      moves = answered && round->moving > 0 && round->stalled == 0;
    }
    if (moves) {
      const std::string message = round->restarted
                                      ? "the job was restarted; the verdict is about what ended"
                                      : "the job moves again; the verdict is withdrawn";
      RETURN_IF_ERROR(deps_.cluster.WriteStatus(
          request,
          WithdrawnStatus(request, round->restarted ? kube::kStallRestarted : kube::kStallWithdrawn,
                          message, deps_.clock.WallNow())));
      deps_.cluster.RecordEvent(request, /*warning=*/false,
                                round->restarted ? "StallEnded" : "StallWithdrawn", "Withdraw",
                                message);
      Forget(key);
      return std::nullopt;
    }
    const Nanos left = round->began + kPause - deps_.clock.MonoNow();
    if (!answered || left > Nanos{0}) return std::max<Nanos>(left, kDescribeTimeout);
  }
  RETURN_IF_ERROR(Begin(key, request));
  return kPause;
}

void StallWatch::Forget(const std::string& key) {
  std::shared_ptr<Round> round;  // Its connections end without the mutex.
  MutexLock lock(&mutex_);
  const auto found = rounds_.find(key);
  if (found == rounds_.end()) return;
  round = std::move(found->second);
  rounds_.erase(found);
}

std::shared_ptr<StallWatch::Round> StallWatch::Find(const std::string& key,
                                                    const std::string& uid) {
  MutexLock lock(&mutex_);
  const auto found = rounds_.find(key);
  return found == rounds_.end() || found->second->uid != uid ? nullptr : found->second;
}

absl::Status StallWatch::Begin(const std::string& key, const objects::ProfileRequest& request) {
  ASSIGN_OR_RETURN(const TargetPods found, FindPodsOnly(deps_.cluster, request.ns, request.target));
  const job::Selection selection = job::SelectTargets(request.target, found.query, found.pods);
  auto round = std::make_shared<Round>(request.uid, deps_.clock.MonoNow());
  round->restarted =
      std::any_of(found.pods.begin(), found.pods.end(),
                  [&](const job::PodInfo& pod) { return BeganSince(pod, request.created); });
  for (const capture::Target& target : selection.targets) {
    if (!target.usable() || round->workers.size() == kAsked) continue;
    round->workers.push_back(deps_.workers.Connect(target));
  }
  const std::vector<std::shared_ptr<capture::Worker>> workers = round->workers;
  const WallTime verdict = request.status.completion_time.value_or(deps_.clock.WallNow());
  {
    MutexLock lock(&round->mutex);
    round->missing = workers.size();
  }
  {
    MutexLock lock(&mutex_);
    rounds_[key] = round;
  }
  for (const std::shared_ptr<capture::Worker>& worker : workers) {
    worker->Check("", kDescribeTimeout,
                  [round, key, verdict,
                   enqueue = deps_.enqueue](const absl::StatusOr<capture::Preflight>& answer) {
                    bool last = false;
                    {
                      MutexLock lock(&round->mutex);
                      if (answer.ok()) {
                        round->moving += TellsAStepSince(*answer, verdict) ? 1 : 0;
                        round->stalled += answer->description.stall().stalled() ? 1 : 0;
                      }
                      last = --round->missing == 0;
                    }
                    if (last) enqueue(key);
                  });
  }
  return absl::OkStatus();
}

}  // namespace strobe::request
