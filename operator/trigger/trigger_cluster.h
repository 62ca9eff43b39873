// Implements Cluster with the API client and the caches of ProfileTriggers and
// ProfileRequests.
#pragma once
#include <string>
#include <vector>

#include "operator/access/run_starter.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"
#include "operator/trigger/ports.h"

namespace strobe::trigger {

class KubeTriggerCluster final : public Cluster {
 public:
  KubeTriggerCluster(access::RunStarter::Dependencies dependencies,
                     const kube::ObjectCache& triggers)
      : starter_(std::move(dependencies)), triggers_(triggers) {}

  absl::StatusOr<ProfileTrigger> ReadTrigger(const std::string& ns, const std::string& name,
                                             Nanos within) override;
  absl::StatusOr<std::vector<TriggerRun>> ReadRuns(const std::string& ns, const std::string& job,
                                                   Nanos within) override;
  absl::StatusOr<job::PodInfo> ReadPod(const std::string& ns, const std::string& name,
                                       Nanos within) override;
  absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileTrigger& trigger,
                                                           TriggeredRun& run,
                                                           Nanos within) override;
  absl::StatusOr<ProfileTrigger> GetTrigger(const std::string& key) override;
  std::vector<TriggerRun> RunsOf(const ProfileTrigger& trigger) override;
  std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns) override {
    return starter_.BoundsOf(ns);
  }
  absl::Status DeleteRun(const ProfileTrigger& trigger, const kube::CreatedRun& run) override;
  absl::Status WriteStatus(const ProfileTrigger& trigger, const TriggerStatus& status) override;
  std::optional<Nanos> KeepSealed(const ProfileTrigger& trigger) override;
  void RecordEvent(const ProfileTrigger& trigger, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note) override;

 private:
  kube::Client& client() { return starter_.dependencies().client; }

  access::RunStarter starter_;
  kube::WrittenObjects triggers_;
};

}  // namespace strobe::trigger
