#include "operator/access/series_policies.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/policy/policy.h"

namespace strobe::access {
namespace {

constexpr Nanos kLabelsAge = std::chrono::minutes(5), kFailedAge = std::chrono::seconds(5);
constexpr Nanos kLabelsLimit = std::chrono::seconds(3);

}  // namespace

absl::StatusOr<std::vector<policy::ProfilePolicy>> ListPolicies(kube::Client& client,
                                                                Nanos within) {
  std::vector<policy::ProfilePolicy> policies;
  const absl::StatusOr<kube::Json> list = client.GetItems(
      policy::PoliciesPath(),
      [&](const kube::Json& item) { policies.push_back(policy::ParsePolicy(item)); }, within);
  if (absl::IsNotFound(list.status())) return policies;
  RETURN_IF_ERROR(list.status());
  return policies;
}

absl::StatusOr<std::map<std::string, std::string>> NamespaceLabels(kube::Client& client,
                                                                   const std::string& ns,
                                                                   Nanos within) {
  ASSIGN_OR_RETURN(const kube::Json object,
                   client.Get(StrCat("/api/v1/namespaces/", UrlEncode(ns)), within));
  std::map<std::string, std::string> labels;
  const kube::Json& found = kube::Member(kube::Member(object, "metadata"), "labels");
  if (!found.is_object()) return labels;
  for (const auto& [key, value] : found.items()) {
    if (value.is_string()) labels[key] = value.get<std::string>();
  }
  return labels;
}

std::optional<policy::SeriesBounds> SeriesPolicies::BoundsOf(const std::string& ns) {
  if (!policies_.filled()) return std::nullopt;
  std::vector<policy::ProfilePolicy> bounding;
  for (const std::string& key : policies_.Keys()) {
    const kube::Object object = policies_.Get(key);
    if (object == nullptr) continue;
    policy::ProfilePolicy policy = policy::ParsePolicy(*object);
    const policy::AutomaticLimits& limits = policy.automatic;
    if (limits.keep_runs || limits.keep_for || limits.budget.any())
      bounding.push_back(std::move(policy));
  }
  if (bounding.empty()) return policy::SeriesBounds{};
  const std::optional<Labels> labels = LabelsOf(ns);
  if (!labels) return std::nullopt;
  return policy::BoundsOfSeries(bounding, *labels);
}

std::optional<SeriesPolicies::Labels> SeriesPolicies::LabelsOf(const std::string& ns) {
  const MonoTime now = clock_.MonoNow();
  {
    MutexLock lock(&mutex_);
    std::erase_if(labels_, [now](const auto& entry) {
      return now - entry.second.read > (entry.second.labels ? kLabelsAge : kFailedAge);
    });
    if (const auto found = labels_.find(ns); found != labels_.end()) return found->second.labels;
  }
  absl::StatusOr<Labels> read = NamespaceLabels(client_, ns, kLabelsLimit);
  std::optional<Labels> labels;
  if (read.ok()) labels = *std::move(read);
  MutexLock lock(&mutex_);
  labels_[ns] = {labels, now};
  return labels;
}

}  // namespace strobe::access
