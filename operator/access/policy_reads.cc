#include "operator/access/policy_reads.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/url_text.h"
#include "operator/base/json_members.h"
#include "operator/policy/policy_json.h"

namespace strobe::access {

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

}  // namespace strobe::access
