// Reads ProfilePolicies, and the labels by which they select namespaces.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/policy/policy.h"

namespace strobe::access {

// All policies; none if their CRD is not installed.
absl::StatusOr<std::vector<policy::ProfilePolicy>> ListPolicies(kube::Client& client, Nanos within);
absl::StatusOr<std::map<std::string, std::string>> NamespaceLabels(kube::Client& client,
                                                                   const std::string& ns,
                                                                   Nanos within);

}  // namespace strobe::access
