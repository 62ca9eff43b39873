#include "operator/enroll/token_review.h"

#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/enroll/pod_token.h"

namespace strobe::kube {
namespace {

// Short, because a sidecar retries, and the server's few threads must not all wait.
constexpr Nanos kReviewLimit = std::chrono::seconds(10);

std::string First(const Json& extra, const char* key) {
  const std::vector<std::string> values = extra.value(key, std::vector<std::string>());
  return values.empty() ? "" : values.front();
}

}  // namespace

absl::StatusOr<PodIdentity> KubeTokenReviewer::Review(const std::string& token) {
  if (!MayBeAccepted(token, kTokenAudience, clock_.WallNow()))
    return absl::UnauthenticatedError("the token is none of a pod, or has expired");
  ASSIGN_OR_RETURN(const Json review,
                   client_.Create("/apis/authentication.k8s.io/v1/tokenreviews",
                                  {{"apiVersion", "authentication.k8s.io/v1"},
                                   {"kind", "TokenReview"},
                                   {"spec", {{"token", token}, {"audiences", {kTokenAudience}}}}},
                                  kReviewLimit));
  try {
    const Json status = review.value("status", Json::object());
    const auto audiences = status.value("audiences", std::vector<std::string>());
    if (!status.value("authenticated", false) ||
        std::find(audiences.begin(), audiences.end(), kTokenAudience) == audiences.end())
      return absl::UnauthenticatedError("the token is not valid");
    const Json& user = status.at("user");
    const Json extra = user.value("extra", Json::object());
    PodIdentity pod;
    pod.uid = First(extra, "authentication.kubernetes.io/pod-uid");
    pod.name = First(extra, "authentication.kubernetes.io/pod-name");
    // "system:serviceaccount:<namespace>:<name>"
    const std::vector<std::string> parts = Split(user.value("username", ""), ':');
    if (parts.size() != 4 || parts[1] != "serviceaccount" || pod.uid.empty() || pod.name.empty())
      return absl::UnauthenticatedError("the token is not bound to a pod");
    pod.ns = parts[2];
    pod.service_account = parts[3];
    return pod;
  } catch (const Json::exception& error) {
    return absl::DataLossError(StrCat("TokenReview: ", error.what()));
  }
}

}  // namespace strobe::kube
