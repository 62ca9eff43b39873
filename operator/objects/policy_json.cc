#include "operator/objects/policy_json.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/objects/json_fields.h"
#include "operator/objects/selector_json.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

absl::Status ReadSpec(const Json& spec, ProfilePolicy& policy) {
  ASSIGN_OR_RETURN(policy.namespaces, ReadSelector(spec.value("namespaceSelector", Json::object()),
                                                   "namespaceSelector"));
  policy.allowed_logdirs = spec.value("allowedLogdirs", std::vector<std::string>());
  policy.default_logdir = spec.value("defaultLogdir", "");
  RETURN_IF_ERROR(ReadDuration(spec, "maxDuration", policy.max_duration));
  RETURN_IF_ERROR(ReadDuration(spec, "minInterval", policy.min_interval));
  if (spec.contains("maxConcurrent")) policy.max_concurrent = spec["maxConcurrent"].get<int>();
  return ReadBytes(spec, "maxBytesPerWorker", policy.max_bytes);
}

}  // namespace

ProfilePolicy ParsePolicy(const Json& object) {
  ProfilePolicy policy;
  try {
    policy.name = object.at("metadata").at("name");
    if (const absl::Status status = ReadSpec(object.value("spec", Json::object()), policy);
        !status.ok()) {
      policy.invalid = MessageOf(status);
    }
  } catch (const Json::exception& error) {
    policy.invalid = StrCat("a field has the wrong type: ", error.what());
  }
  return policy;
}

}  // namespace strobe::kube
