// Tells the reconcilers of schedules and triggers which bounds policies set for the runs that are
// kept. They ask again and again, so it asks the server only for the labels of namespaces, every
// five minutes, and only where a policy has such bounds. Safe for concurrent use.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"
#include "operator/policy/policy.h"
#include "operator/policy/retention.h"

namespace strobe::access {

// All policies; none if their CRD is not installed.
absl::StatusOr<std::vector<policy::ProfilePolicy>> ListPolicies(kube::Client& client, Nanos within);
absl::StatusOr<std::map<std::string, std::string>> NamespaceLabels(kube::Client& client,
                                                                   const std::string& ns,
                                                                   Nanos within);

class SeriesPolicies {
 public:
  // All outlive it. `policies` is the cache of ProfilePolicies, which only the leader fills.
  SeriesPolicies(const Clock& clock, kube::Client& client, const kube::ObjectCache& policies)
      : clock_(clock), client_(client), policies_(policies) {}

  // None if policies or labels are not known now.
  std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns);

 private:
  using Labels = std::map<std::string, std::string>;
  struct Remembered {
    std::optional<Labels> labels;  // None: they could not be read.
    MonoTime read;
  };
  std::optional<Labels> LabelsOf(const std::string& ns);

  const Clock& clock_;
  kube::Client& client_;
  const kube::ObjectCache& policies_;
  Mutex mutex_;
  std::map<std::string, Remembered> labels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::access
