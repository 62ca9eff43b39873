#include "operator/access/series_policies.h"

#include <algorithm>

#include "operator/access/policy_reads.h"
#include "operator/policy/policy_json.h"

namespace strobe::access {
namespace {

constexpr Nanos kLabelsAge = std::chrono::minutes(5), kFailedAge = std::chrono::seconds(5);
constexpr Nanos kLabelsLimit = std::chrono::seconds(3);

}  // namespace

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
