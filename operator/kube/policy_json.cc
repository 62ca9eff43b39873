#include "operator/kube/policy_json.h"

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "operator/kube/json_fields.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;
using Requirement = LabelSelector::Requirement;

absl::StatusOr<LabelSelector> ReadSelector(const Json& selector) {
  LabelSelector read;
  const Json labels = selector.value("matchLabels", Json::object());
  for (const auto& [key, value] : labels.items())
    read.requirements.push_back({key, Requirement::Operator::kIn, {value.get<std::string>()}});
  const Json expressions = selector.value("matchExpressions", Json::array());
  for (const Json& expression : expressions) {
    const std::string op = expression.at("operator");
    Requirement requirement;
    requirement.key = expression.at("key");
    requirement.values = expression.value("values", std::vector<std::string>());
    if (op == "In")
      requirement.op = Requirement::Operator::kIn;
    else if (op == "NotIn")
      requirement.op = Requirement::Operator::kNotIn;
    else if (op == "Exists")
      requirement.op = Requirement::Operator::kExists;
    else if (op == "DoesNotExist")
      requirement.op = Requirement::Operator::kDoesNotExist;
    else
      return absl::InvalidArgumentError(StrCat("namespaceSelector: operator ", op, " is unknown"));
    read.requirements.push_back(std::move(requirement));
  }
  return read;
}

absl::Status ReadSpec(const Json& spec, ProfilePolicy& policy) {
  ASSIGN_OR_RETURN(policy.namespaces,
                   ReadSelector(spec.value("namespaceSelector", Json::object())));
  policy.allowed_logdirs = spec.value("allowedLogdirs", std::vector<std::string>());
  RETURN_IF_ERROR(ReadDuration(spec, "maxDuration", policy.max_duration));
  RETURN_IF_ERROR(ReadDuration(spec, "minInterval", policy.min_interval));
  if (spec.contains("maxConcurrent")) policy.max_concurrent = spec["maxConcurrent"].get<int>();
  if (spec.contains("maxBytesPerWorker"))
    policy.max_bytes = spec["maxBytesPerWorker"].get<std::uint64_t>();
  return absl::OkStatus();
}

}  // namespace

ProfilePolicy ParsePolicy(const Json& object) {
  ProfilePolicy policy;
  try {
    policy.name = object.at("metadata").at("name");
    if (const absl::Status status = ReadSpec(object.value("spec", Json::object()), policy);
        !status.ok()) {
      policy.invalid = Words(status);
    }
  } catch (const Json::exception& error) {
    policy.invalid = StrCat("a field has the wrong type: ", error.what());
  }
  return policy;
}

}  // namespace strobe::kube
