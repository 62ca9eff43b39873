#include "operator/trigger/trigger_sign_sink.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::trigger {
namespace {

// At most twice as many are kept, of about 500 bytes each.
constexpr std::size_t kKnownWorkers = 4096;
// How fast pods that are not known yet are read. A sidecar that is refused calls again.
constexpr double kPodReadsPerSecond = 50, kPodReadBurst = 200;
constexpr Nanos kPodReadLimit = std::chrono::seconds(5);
// How long a worker is not believed that spoke for a pod which is not its own. Its certificate
// proves only its UID, and it would spend the reads of the namespace that it names.
constexpr Nanos kDistrust = std::chrono::seconds(30);

}  // namespace

TriggerSignSink::TriggerSignSink(const Clock& clock, Cluster& cluster, const Table& triggers,
                                 TriggerSink& sink, Metrics& metrics)
    : clock_(clock),
      cluster_(cluster),
      triggers_(triggers),
      sink_(sink),
      metrics_(metrics),
      reads_(kPodReadsPerSecond, kPodReadBurst, clock.MonoNow()),
      workers_(kKnownWorkers),
      liars_(kKnownWorkers) {}

absl::StatusOr<SignOrders> TriggerSignSink::Take(const WorkerSigns& told, MonoTime until) {
  if (!sink_.IsOpen()) return absl::UnavailableError("the triggers are not known yet");
  SignOrders orders{.again = kTellWithoutTriggers};
  const std::vector<Table::Trigger> triggers = triggers_.AskingForSigns(told.ns);
  if (triggers.empty()) return orders;
  ASSIGN_OR_RETURN(const Worker worker, Find(told, until));
  absl::Status first;
  for (const Table::Trigger& trigger : triggers) {
    if (!AsksForSigns(*trigger, *worker)) continue;
    orders.again = std::min(orders.again,
                            trigger->signs.slower_than_others ? kTellStepTimes : kTellWithTriggers);
    for (SignRule& rule : RulesOf(*trigger))
      if (orders.rules.size() < kMaxSignRules) orders.rules.push_back(std::move(rule));
    // A trigger that fails must not keep the others from being decided.
    first.Update(TakeSigns(*trigger, *worker, told, until));
    first.Update(TakeStepTimes(*trigger, *worker, told, until));
  }
  if (!first.ok()) return absl::UnavailableError(first.message());
  return orders;
}

absl::StatusOr<TriggerSignSink::Worker> TriggerSignSink::Find(const WorkerSigns& told,
                                                              MonoTime until) {
  const std::string key = StrCat(told.ns, "/", told.pod, "/", told.uid);
  {
    MutexLock lock(&mutex_);
    if (const Worker* known = workers_.Find(key)) return *known;
    const MonoTime* lied = liars_.Find(told.uid);
    if (lied != nullptr && clock_.MonoNow() - *lied < kDistrust)
      return absl::PermissionDeniedError("it has spoken for another pod");
    if (!reads_.Take(told.ns, clock_.MonoNow()))
      return absl::UnavailableError("too many workers at once");
  }
  absl::StatusOr<job::PodInfo> pod =
      cluster_.ReadPod(told.ns, told.pod, std::min(until - clock_.MonoNow(), kPodReadLimit));
  if (absl::IsNotFound(pod.status()) || (pod.ok() && pod->uid != told.uid)) {
    MutexLock lock(&mutex_);
    liars_.Put(told.uid, clock_.MonoNow());
    return absl::PermissionDeniedError("there is no such pod");
  }
  RETURN_IF_ERROR(pod.status());
  auto worker = std::make_shared<const SignWorker>(SignWorkerOf(*pod));
  MutexLock lock(&mutex_);
  workers_.Put(key, worker);
  return worker;
}

absl::Status TriggerSignSink::TakeSigns(const ProfileTrigger& trigger, const SignWorker& worker,
                                        const WorkerSigns& told, MonoTime until) {
  absl::Status first;
  for (const ReportedSign& sign : told.signs) {
    const std::optional<SignRule> rule = FindRule(trigger, sign.rule);
    // Sidecars cannot judge kSlowerThanOthers, because only the operator sees all workers.
    if (!rule || rule->kind == SignKind::kSlowerThanOthers) continue;
    first.Update(Decide(trigger, *rule, sign, worker, until));
  }
  return first;
}

absl::Status TriggerSignSink::TakeStepTimes(const ProfileTrigger& trigger, const SignWorker& worker,
                                            const WorkerSigns& told, MonoTime until) {
  if (!trigger.signs.slower_than_others) return absl::OkStatus();
  const std::string group = StrCat(trigger.uid, "\n", job::JobText(worker.job));
  absl::Status first;
  for (const ReportedStepTime& time : told.step_times) {
    std::optional<ReportedSign> sign;
    {
      MutexLock lock(&mutex_);
      const std::size_t dropped = paces_.dropped();
      sign =
          paces_.Take(group, worker.uid, time, *trigger.signs.slower_than_others, clock_.MonoNow());
      if (paces_.dropped() != dropped)
        metrics_.SignDecided(NameOf(SignKind::kSlowerThanOthers), "TooManyWorkers");
    }
    const std::string id = StrCat(trigger.name, "/", NameOf(SignKind::kSlowerThanOthers));
    if (sign) first.Update(Decide(trigger, *FindRule(trigger, id), *sign, worker, until));
  }
  return first;
}

absl::Status TriggerSignSink::Decide(const ProfileTrigger& trigger, const SignRule& rule,
                                     const ReportedSign& sign, const SignWorker& worker,
                                     MonoTime until) {
  return sink_.TakeSign(trigger, AlertOfSign(rule, sign, worker, clock_.WallNow()), until);
}

}  // namespace strobe::trigger
