// Lists pods from the API server page by page.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace strobe::request {

// The pods of one namespace, or of all namespaces if `ns` is empty; all pods if `selector` is
// empty.
struct PodScope {
  std::string ns{}, selector{};
  // If true, the server answers from its cache. The list may be slightly old, as it is for any
  // controller, but it is cheap; older servers read all pods from etcd for a live list.
  bool cached = false;
};
absl::Status ForEachPod(kube::Client& client, const PodScope& scope,
                        const std::function<void(const kube::Json&)>& pod);

// Counts, by namespace, the pods that should be injected, have not ended and have no working
// sidecar. Should be injected: by their own label or, where they have none, by their namespace's.
absl::StatusOr<std::map<std::string, int>> CountUninjectedPods(kube::Client& client,
                                                               const std::string& ns);

}  // namespace strobe::request
