// Implements the schedule reconciler's ScheduleCluster interface with the API client and the caches
// of ProfileSchedules and ProfileRequests.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "operator/controller/schedule_ports.h"
#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/kube_gatekeeper.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"

namespace strobe::kube {

class KubeScheduleCluster final : public ScheduleCluster {
 public:
  // All must outlive this object.
  struct Dependencies {
    const Clock& clock;
    Client& client;
    const ObjectCache& requests;
    EventRecorder& events;
    KubeGatekeeper* gatekeeper = nullptr;  // Null: it is not known who asks, and all is allowed.
    // The current seal keys; the first one is used for new seals. See admission_seal.h.
    std::function<std::vector<std::string>()> seal_keys{};
  };
  KubeScheduleCluster(Dependencies dependencies, const ObjectCache& schedules)
      : deps_(std::move(dependencies)), schedules_(schedules) {}

  absl::StatusOr<ProfileSchedule> GetSchedule(const std::string& key) override;
  absl::StatusOr<std::vector<ScheduleRun>> RunsOf(const ProfileSchedule& schedule) override;
  absl::StatusOr<std::optional<RunRefusal>> StartRun(const ProfileSchedule& schedule,
                                                     const DueRun& due) override;
  absl::Status CancelRun(const ProfileSchedule& schedule, const ScheduleRun& run) override;
  absl::Status DeleteRun(const ProfileSchedule& schedule, const ScheduleRun& run) override;
  absl::Status WriteStatus(const ProfileSchedule& schedule, const ScheduleStatus& status) override;
  void RecordEvent(const ProfileSchedule& schedule, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note) override;

 private:
  using MaybeRefusal = absl::StatusOr<std::optional<RunRefusal>>;

  absl::Status CheckIsCurrent(const ProfileSchedule& schedule);
  absl::Status SealAgain(const ProfileSchedule& schedule, const Json& object);
  MaybeRefusal AdmitRun(const ProfileSchedule& schedule, Json& run);
  MaybeRefusal CreateRun(const ProfileSchedule& schedule, const Json& run);

  const Dependencies deps_;
  WrittenObjects schedules_;
};

}  // namespace strobe::kube
