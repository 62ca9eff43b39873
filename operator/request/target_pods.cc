#include "operator/request/target_pods.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::request {

absl::StatusOr<TargetPods> FindTargetPods(Cluster& cluster, const std::string& ns,
                                          const job::TargetSpec& target, bool patient) {
  TargetPods found;
  if (target.job && target.job->kind != "Pod") {
    absl::StatusOr<job::Shape> described = cluster.DescribeJob(ns, *target.job);
    if (!described.ok() && patient) return described.status();
    found.shape = described.ok() ? *std::move(described)
                                 : job::Shape{.unknown = StrCat("the job could not be read: ",
                                                                MessageOf(described.status()))};
  }
  ASSIGN_OR_RETURN(found.query, job::QueryFor(target, found.shape ? &*found.shape : nullptr));
  ASSIGN_OR_RETURN(found.pods, cluster.ListPods(ns, found.query));
  return found;
}

absl::StatusOr<TargetPods> FindPodsOnly(Cluster& cluster, const std::string& ns,
                                        const job::TargetSpec& target) {
  TargetPods found;
  ASSIGN_OR_RETURN(found.query, job::QueryFor(target));
  if (found.query.nothing) return FindTargetPods(cluster, ns, target, /*patient=*/false);
  ASSIGN_OR_RETURN(found.pods, cluster.ListPods(ns, found.query));
  return found;
}

}  // namespace strobe::request
