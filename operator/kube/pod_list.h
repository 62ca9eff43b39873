// Pods from the API server, page by page.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace strobe::kube {

// Of one namespace, or of all when `space` is empty; all pods when `selector` is empty.
absl::Status ForEachPod(Client& client, const std::string& space, const std::string& selector,
                        const std::function<void(const Json&)>& pod);

// Pods that carry the injection label, have not ended and have no sidecar that works, by namespace.
absl::StatusOr<std::map<std::string, int>> CountUninjectedPods(Client& client,
                                                               const std::string& space);

}  // namespace strobe::kube
