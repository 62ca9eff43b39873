// What `kubectl strobe check` found out: lines to read, JSON for programs, an exit code. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "operator/objects/request.h"

namespace strobe::cluster {

struct Finding {
  enum class Level { kOk, kWarning, kFailed };
  Level level = Level::kOk;
  std::string subject{};  // "installation", "access", "policy", "worker llm-0", ...
  std::string message{};
  std::string remedy{};  // Empty if there is nothing to do.
};

// `resources` is what `kubectl api-resources --api-group=strobe.dev --output=name` wrote.
Finding InstallationFinding(const std::string& resources);

// The reviews of all rights that the commands need, as objects for `kubectl create`.
std::vector<nlohmann::ordered_json> AccessReviews(const std::string& ns);
// `reviews` are the same objects as the API server returned them. A right without which no capture
// is possible is a failure, others are warnings.
std::vector<Finding> AccessFindings(const nlohmann::json& reviews);

// The API server, or a webhook of Strobe, refused to create the request.
Finding RefusalFinding(const absl::Status& refusal);
// Nobody has written the request's status for a while.
Finding SilentOperatorFinding(const std::string& waited);

// What a request with preflightOnly tells when it has finished: about the target, the policy, and
// each worker.
std::vector<Finding> RequestFindings(const objects::ProfileRequest& request);

bool AllPassed(const std::vector<Finding>& findings);
std::string FindingsText(const std::vector<Finding>& findings);
std::string FindingsJson(const std::vector<Finding>& findings);

}  // namespace strobe::cluster
