// Implements the schedule reconciler's Cluster interface with the API client and the caches
// of ProfileSchedules and ProfileRequests.
#pragma once
#include <string>
#include <vector>

#include "operator/access/run_starter.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"
#include "operator/schedule/schedule_ports.h"

namespace strobe::schedule {

class KubeScheduleCluster final : public Cluster {
 public:
  KubeScheduleCluster(access::RunStarter::Dependencies dependencies,
                      const kube::ObjectCache& schedules)
      : starter_(std::move(dependencies)), schedules_(schedules) {}

  absl::StatusOr<ProfileSchedule> GetSchedule(const std::string& key) override;
  absl::StatusOr<std::vector<kube::CreatedRun>> RunsOf(const ProfileSchedule& schedule) override;
  absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileSchedule& schedule,
                                                           DueRun& due) override;
  absl::Status CancelRun(const ProfileSchedule& schedule, const kube::CreatedRun& run) override;
  std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns) override {
    return starter_.BoundsOf(ns);
  }
  absl::Status DeleteRun(const ProfileSchedule& schedule, const kube::CreatedRun& run) override;
  absl::Status WriteStatus(const ProfileSchedule& schedule, const ScheduleStatus& status) override;
  std::optional<Nanos> KeepSealed(const ProfileSchedule& schedule) override;
  void RecordEvent(const ProfileSchedule& schedule, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note) override;

 private:
  absl::Status CheckIsCurrent(const ProfileSchedule& schedule);
  kube::Client& client() { return starter_.dependencies().client; }

  access::RunStarter starter_;
  kube::WrittenObjects schedules_;
};

}  // namespace strobe::schedule
