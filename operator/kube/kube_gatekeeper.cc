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
// What those who wait are judged by may be so old,
constexpr Nanos kGlanceAge = std::chrono::seconds(5);
// and is waited for so long: everybody else who waits stands behind.
constexpr Nanos kGlanceLimit = std::chrono::seconds(3);

}  // namespace

absl::StatusOr<PolicyVerdict> KubeGatekeeper::Judge(const ProfileRequest& request,
                                                    const Requester& requester, const Crowd& crowd,
                                                    Nanos within) {
  const MonoTime deadline = clock_.MonoNow() + within;
  ASSIGN_OR_RETURN(std::string refusal, WhyNoAccess(request, requester, deadline));
  if (!refusal.empty()) return PolicyVerdict{PolicyVerdict::Kind::kRefused, std::move(refusal), {}};
  ASSIGN_OR_RETURN(const std::vector<ProfilePolicy> policies, ReadPolicies(deadline));
  ASSIGN_OR_RETURN(Labels labels, ReadLabels(request.space, deadline));
  return JudgeByFacts(request, crowd, policies, std::move(labels));
}

std::optional<PolicyVerdict> KubeGatekeeper::Glance(const ProfileRequest& request,
                                                    const Crowd& crowd) {
  const absl::StatusOr<std::vector<ProfilePolicy>> policies = RecentPolicies();
  if (!policies.ok()) return std::nullopt;
  absl::StatusOr<Labels> labels = RecentLabels(request.space);
  if (!labels.ok()) return std::nullopt;
  PolicyVerdict verdict = JudgeByFacts(request, crowd, *policies, *std::move(labels));
  // What some seconds ago would have been refused may be allowed by now.
  if (verdict.kind != PolicyVerdict::Kind::kWait) return std::nullopt;
  return verdict;
}

PolicyVerdict KubeGatekeeper::JudgeByFacts(const ProfileRequest& request, const Crowd& crowd,
                                           const std::vector<ProfilePolicy>& policies,
                                           Labels labels) const {
  NamespaceFacts facts{.name = request.space, .labels = std::move(labels), .crowd = crowd};
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
                                                        const Requester& requester,
                                                        MonoTime deadline) {
  ASSIGN_OR_RETURN(const bool all, MayProfile(requester, request.space, "", deadline));
  if (all) return std::string();
  const std::vector<std::string>& pods = request.target.pods;
  bool each = !pods.empty() && pods.size() <= kFewNames;
  for (std::size_t i = 0; each && i < pods.size(); ++i) {
    ASSIGN_OR_RETURN(each, MayProfile(requester, request.space, pods[i], deadline));
  }
  if (each) return std::string();
  return StrCat("user \"", requester.username, "\" may not profile pods in namespace ",
                request.space,
                "; that takes the verb \"profile\" on pods (apiGroup \"\"), which the "
                "chart's ClusterRole ...-profiler gives");
}

absl::StatusOr<bool> KubeGatekeeper::MayProfile(const Requester& requester,
                                                const std::string& space, const std::string& pod,
                                                MonoTime deadline) {
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
                                   {"spec", std::move(spec)}},
                                  deadline - clock_.MonoNow()));
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

absl::StatusOr<std::vector<ProfilePolicy>> KubeGatekeeper::ReadPolicies(MonoTime deadline) {
  std::vector<ProfilePolicy> policies;
  const absl::StatusOr<Json> list = client_.Get(kPoliciesPath, deadline - clock_.MonoNow());
  if (absl::IsNotFound(list.status())) return policies;  // Not even the type is there.
  RETURN_IF_ERROR(list.status());
  for (const Json& item : list->value("items", Json::array()))
    policies.push_back(ParsePolicy(item));
  return policies;
}

absl::StatusOr<KubeGatekeeper::Labels> KubeGatekeeper::ReadLabels(const std::string& space,
                                                                  MonoTime deadline) {
  ASSIGN_OR_RETURN(const Json object,
                   client_.Get(StrCat("/api/v1/namespaces/", space), deadline - clock_.MonoNow()));
  const auto metadata = object.find("metadata");
  Labels labels;
  if (metadata == object.end() || !metadata->contains("labels")) return labels;
  for (const auto& [key, value] : (*metadata)["labels"].items()) {
    if (value.is_string()) labels[key] = value.get<std::string>();
  }
  return labels;
}

bool KubeGatekeeper::MayReadAgain(MonoTime now) {
  if (failed_ && now - *failed_ <= kGlanceAge) return false;
  failed_ = now;  // Until it is there.
  return true;
}

absl::StatusOr<std::vector<ProfilePolicy>> KubeGatekeeper::RecentPolicies() {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_.MonoNow();
  if (policies_ && now - policies_->read <= kGlanceAge) return policies_->value;
  if (!MayReadAgain(now)) return absl::UnavailableError("the policies could not be read");
  ASSIGN_OR_RETURN(std::vector<ProfilePolicy> policies, ReadPolicies(now + kGlanceLimit));
  failed_.reset();
  policies_ = {std::move(policies), now};
  return policies_->value;
}

absl::StatusOr<KubeGatekeeper::Labels> KubeGatekeeper::RecentLabels(const std::string& space) {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_.MonoNow();
  std::erase_if(labels_, [now](const auto& entry) { return now - entry.second.read > kGlanceAge; });
  if (const auto found = labels_.find(space); found != labels_.end()) return found->second.value;
  if (!MayReadAgain(now)) return absl::UnavailableError("the namespace could not be read");
  ASSIGN_OR_RETURN(Labels labels, ReadLabels(space, now + kGlanceLimit));
  failed_.reset();
  return (labels_[space] = {std::move(labels), now}).value;
}

}  // namespace strobe::kube
