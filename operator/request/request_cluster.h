// Implements the reconciler's Cluster interface with the API client and the cache of
// ProfileRequests.
#pragma once
#include <string>

#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"
#include "operator/request/ports.h"

namespace strobe::request {

class RequestCluster final : public Cluster {
 public:
  // All arguments must outlive this object.
  RequestCluster(kube::Client& client, const kube::ObjectCache& requests,
                 kube::EventRecorder& events);

  absl::StatusOr<objects::ProfileRequest> GetRequest(const std::string& key) override;
  absl::StatusOr<std::vector<job::PodInfo>> ListPods(const std::string& ns,
                                                     const job::PodQuery& query) override;
  absl::StatusOr<job::Shape> DescribeJob(const std::string& ns, const kube::JobRef& job) override;
  absl::Status SetFinalizers(const objects::ProfileRequest& request,
                             const std::vector<std::string>& finalizers) override;
  absl::Status WriteStatus(const objects::ProfileRequest& request,
                           const objects::RequestStatus& status) override;
  absl::Status DeleteRequest(const objects::ProfileRequest& request) override;
  void RecordEvent(const objects::ProfileRequest& request, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note) override;

 private:
  kube::Client& client_;
  kube::EventRecorder& events_;
  kube::WrittenObjects requests_;
};

}  // namespace strobe::request
