// Reads and follows ProfileRequests through kubectl.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/kube/kubectl.h"
#include "operator/objects/request.h"

namespace strobe::cluster {

// Parses JSON and removes control characters from its texts: sidecars and containers choose some
// messages, and they are shown on the user's terminal.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text);
// The objects that kubectl writes one after the other, each ending with a line that is "}", as an
// array. What is no JSON is left out.
nlohmann::json ParseJsonObjects(const std::string& text);
absl::StatusOr<objects::ProfileRequest> ParseRequestText(const std::string& text);

absl::StatusOr<objects::ProfileRequest> GetRequest(Kubectl& kubectl, const std::string& name);
// The requests of the namespace, or of all namespaces. Objects that cannot be read are left out.
absl::StatusOr<std::vector<objects::ProfileRequest>> ListRequests(Kubectl& kubectl,
                                                                  bool all_namespaces);

absl::Status CancelRequest(Kubectl& kubectl, const std::string& name);

struct WatchHooks {
  std::function<bool(const objects::ProfileRequest&)> seen;  // False ends the watch.
  std::function<bool()> tick;   // Called a few times a second; false ends the watch.
  std::function<bool()> pause;  // Waits a little before the next try; false ends the watch.
};
// Calls `seen` with the request now and after every change. A kubectl that ends is started again.
// NotFound: the request was deleted. The error of kubectl if several in a row end with one, without
// an object between them.
absl::Status WatchRequest(Kubectl& kubectl, const std::string& name, const std::string& uid,
                          const WatchHooks& hooks);

}  // namespace strobe::cluster
