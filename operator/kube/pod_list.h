// Pods from the API server, page by page.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace strobe::kube {

// Of one namespace, or of all when `space` is empty; all pods when `selector` is empty.
struct PodScope {
  std::string space{}, selector{};
  // From the API server's cache, as controllers see pods: a moment old, and cheap for the server
  // however many others there are, where a live list makes older ones read them all from etcd. But
  // all in one answer.
  bool cached = false;
};
absl::Status ForEachPod(Client& client, const PodScope& scope,
                        const std::function<void(const Json&)>& pod);

// Pods that carry the injection label, have not ended and have no sidecar that works, by namespace.
absl::StatusOr<std::map<std::string, int>> CountUninjectedPods(Client& client,
                                                               const std::string& space);

}  // namespace strobe::kube
