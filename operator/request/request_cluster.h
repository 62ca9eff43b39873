// Implements the reconciler's Cluster interface with the API client and the cache of
// ProfileRequests.
#pragma once
#include <string>

#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"
#include "operator/request/ports.h"

namespace strobe::kube {

class RequestCluster final : public Cluster {
 public:
  // All arguments must outlive this object.
  RequestCluster(Client& client, const ObjectCache& requests, EventRecorder& events);

  absl::StatusOr<ProfileRequest> GetRequest(const std::string& key) override;
  absl::StatusOr<std::vector<PodInfo>> ListPods(const std::string& ns,
                                                const PodQuery& query) override;
  absl::StatusOr<JobShape> DescribeJob(const std::string& ns, const JobRef& job) override;
  absl::Status SetFinalizers(const ProfileRequest& request,
                             const std::vector<std::string>& finalizers) override;
  absl::Status WriteStatus(const ProfileRequest& request, const RequestStatus& status) override;
  absl::Status DeleteRequest(const ProfileRequest& request) override;
  void RecordEvent(const ProfileRequest& request, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note) override;

 private:
  Client& client_;
  EventRecorder& events_;
  WrittenObjects requests_;
};

}  // namespace strobe::kube
