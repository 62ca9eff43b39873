#include "operator/enroll/token_review.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::enroll {
namespace {

// Short, because a sidecar retries, and the server's few threads must not all wait.
constexpr Nanos kReviewLimit = std::chrono::seconds(10);

std::string First(const kube::Json& extra, const char* key) {
  const std::vector<std::string> values = extra.value(key, std::vector<std::string>());
  return values.empty() ? "" : values.front();
}

using Json = nlohmann::json;

// The API server's clock may differ from this one.
constexpr Nanos kLeeway = std::chrono::minutes(5);

bool Names(const Json& audiences, std::string_view audience) {
  if (!audiences.is_array()) return audiences == audience;
  return std::find(audiences.begin(), audiences.end(), audience) != audiences.end();
}

}  // namespace

absl::StatusOr<PodIdentity> KubeTokenReviewer::Review(const std::string& token) {
  if (!MayBeAccepted(token, kube::kTokenAudience, clock_.WallNow()))
    return absl::UnauthenticatedError("the token is none of a pod, or has expired");
  ASSIGN_OR_RETURN(
      const kube::Json review,
      client_.Create("/apis/authentication.k8s.io/v1/tokenreviews",
                     {{"apiVersion", "authentication.k8s.io/v1"},
                      {"kind", "TokenReview"},
                      {"spec", {{"token", token}, {"audiences", {kube::kTokenAudience}}}}},
                     kReviewLimit));
  try {
    const kube::Json status = review.value("status", kube::Json::object());
    const auto audiences = status.value("audiences", std::vector<std::string>());
    if (!status.value("authenticated", false) ||
        std::find(audiences.begin(), audiences.end(), kube::kTokenAudience) == audiences.end())
      return absl::UnauthenticatedError("the token is not valid");
    const kube::Json& user = status.at("user");
    const kube::Json extra = user.value("extra", kube::Json::object());
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
  } catch (const kube::Json::exception& error) {
    return absl::DataLossError(StrCat("TokenReview: ", error.what()));
  }
}

bool MayBeAccepted(std::string_view token, std::string_view audience, WallTime now) {
  const std::size_t first = token.find('.');
  const std::size_t second = first == token.npos ? token.npos : token.find('.', first + 1);
  if (second == token.npos || token.find('.', second + 1) != token.npos) return false;
  std::string payload;
  if (!absl::WebSafeBase64Unescape(ToAbsl(token.substr(first + 1, second - first - 1)), &payload))
    return false;
  const kube::Json claims = kube::Json::parse(payload, nullptr, /*allow_exceptions=*/false);
  if (!claims.is_object() || !Names(claims.value("aud", kube::Json()), audience)) return false;
  const kube::Json expires = claims.value("exp", kube::Json());
  const auto earliest = std::chrono::duration<double>((now - kLeeway).time_since_epoch());
  return expires.is_number() && expires.get<double>() > earliest.count();
}

}  // namespace strobe::enroll
