#include "operator/kube/kube_gatekeeper.h"

#include <algorithm>

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "operator/kube/policy_json.h"
#include "operator/kube/request_json.h"
#include "operator/kube/requester_json.h"

namespace strobe::kube {
namespace {

// Names to ask for one by one; more need the right to all pods.
constexpr std::size_t kFewNames = 16;

}  // namespace

absl::StatusOr<PolicyVerdict> KubeGatekeeper::Judge(const ProfileRequest& request,
                                                    const Requester& requester, int active) {
  ASSIGN_OR_RETURN(std::string refusal, WhyNoAccess(request, requester));
  if (!refusal.empty()) return PolicyVerdict{PolicyVerdict::Kind::kRefused, std::move(refusal), {}};
  ASSIGN_OR_RETURN(const std::vector<ProfilePolicy> policies, Policies());
  NamespaceFacts facts{.name = request.space, .active = active};
  ASSIGN_OR_RETURN(const Json space, client_.Get(StrCat("/api/v1/namespaces/", request.space)));
  facts.labels = space.at("metadata").value("labels", std::map<std::string, std::string>());
  // Reads every request of the namespace: only where somebody asks.
  if (std::any_of(policies.begin(), policies.end(),
                  [](const ProfilePolicy& policy) { return policy.min_interval.has_value(); }))
    facts.last_end = LastEnd(request);
  const bool matched = std::any_of(
      policies.begin(), policies.end(),
      [&](const ProfilePolicy& policy) { return policy.namespaces.Matches(facts.labels); });
  if (!matched && !need_policy_) return PolicyVerdict{};
  return JudgeByPolicies(policies, facts, request.capture, clock_.WallNow());
}

absl::StatusOr<std::string> KubeGatekeeper::WhyNoAccess(const ProfileRequest& request,
                                                        const Requester& requester) {
  ASSIGN_OR_RETURN(const bool all, MayProfile(requester, request.space, ""));
  if (all) return std::string();
  const std::vector<std::string>& pods = request.target.pods;
  bool each = !pods.empty() && pods.size() <= kFewNames;
  for (std::size_t i = 0; each && i < pods.size(); ++i) {
    ASSIGN_OR_RETURN(each, MayProfile(requester, request.space, pods[i]));
  }
  if (each) return std::string();
  return StrCat("user \"", requester.username, "\" may not profile pods in namespace ",
                request.space,
                "; that takes the verb \"profile\" on pods (apiGroup \"\"), which the "
                "chart's ClusterRole ...-profiler gives");
}

absl::StatusOr<bool> KubeGatekeeper::MayProfile(const Requester& requester,
                                                const std::string& space, const std::string& pod) {
  Json attributes = {{"namespace", space}, {"verb", "profile"}, {"resource", "pods"}};
  if (!pod.empty()) attributes["name"] = pod;
  // The same fields, but for one name.
  Json spec = RequesterToJson(requester);
  spec["user"] = requester.username;
  spec.erase("username");
  spec["resourceAttributes"] = std::move(attributes);
  ASSIGN_OR_RETURN(const Json review,
                   client_.Create("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                  {{"apiVersion", "authorization.k8s.io/v1"},
                                   {"kind", "SubjectAccessReview"},
                                   {"spec", std::move(spec)}}));
  return review.value("status", Json::object()).value("allowed", false);
}

std::optional<WallTime> KubeGatekeeper::LastEnd(const ProfileRequest& request) const {
  std::optional<WallTime> last;
  const std::string prefix = request.space + "/";
  for (const std::string& key : requests_.Keys()) {
    if (!key.starts_with(prefix)) continue;
    const Object object = requests_.Get(key);
    if (object == nullptr) continue;
    const absl::StatusOr<ProfileRequest> other = ParseRequest(*object);
    // One that was refused recorded nothing.
    if (!other.ok() || other->name == request.name || other->status.attempt == 0) continue;
    if (other->status.completion_time)
      last = std::max(last.value_or(WallTime{}), *other->status.completion_time);
  }
  return last;
}

absl::StatusOr<std::vector<ProfilePolicy>> KubeGatekeeper::Policies() {
  std::vector<ProfilePolicy> policies;
  const absl::StatusOr<Json> list = client_.Get(kPoliciesPath);
  if (absl::IsNotFound(list.status())) return policies;  // Not even the type is there.
  RETURN_IF_ERROR(list.status());
  for (const Json& item : list->value("items", Json::array()))
    policies.push_back(ParsePolicy(item));
  return policies;
}

}  // namespace strobe::kube
