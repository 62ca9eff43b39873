#include "operator/policy/policy_json.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/condition_json.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/selector_json.h"
#include "operator/policy/budget_json.h"

namespace strobe::policy {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxKeptRuns = 1000;
constexpr Nanos kMinKept = std::chrono::minutes(1);

absl::Status ReadSidecar(const Json& sidecar, ProfilePolicy& policy) {
  policy.flight_recorder_devices = sidecar.value("flightRecorderDevices", false);
  if (!sidecar.contains("runAsUser")) return absl::OkStatus();
  kube::SidecarUser ids;
  ids.user = sidecar["runAsUser"].get<std::int64_t>();
  ids.group = sidecar.value("runAsGroup", ids.user);
  if (!kube::IsSidecarId(ids.user) || !kube::IsSidecarId(ids.group)) {
    return absl::InvalidArgumentError(
        "sidecar.runAsUser and sidecar.runAsGroup must be from 1 to 2147483647");
  }
  policy.sidecar_user = ids;
  return absl::OkStatus();
}

absl::Status ReadKeep(const Json& keep, AutomaticLimits& limits) {
  if (keep.contains("runs")) limits.keep_runs = keep["runs"].get<std::size_t>();
  if (limits.keep_runs && (*limits.keep_runs < 1 || *limits.keep_runs > kMaxKeptRuns))
    return absl::InvalidArgumentError("automatic.keep.runs: it must be from 1 to 1000");
  RETURN_IF_ERROR(kube::ReadDuration(keep, "for", limits.keep_for));
  if (limits.keep_for && *limits.keep_for < kMinKept)
    return absl::InvalidArgumentError("automatic.keep.for: it must be at least 1m");
  return absl::OkStatus();
}

// The schema has the same bounds, but an older schema may be installed.
absl::Status ReadAutomatic(const Json& given, AutomaticLimits& limits) {
  ASSIGN_OR_RETURN(limits.budget, ReadBudget(given, "automatic"));
  if (given.contains("maxConcurrent")) limits.max_concurrent = given["maxConcurrent"].get<int>();
  if (limits.max_concurrent && (*limits.max_concurrent < 1 || *limits.max_concurrent > 1000))
    return absl::InvalidArgumentError("automatic.maxConcurrent: it must be from 1 to 1000");
  return ReadKeep(given.value("keep", Json::object()), limits);
}

absl::Status ReadSpec(const Json& spec, ProfilePolicy& policy) {
  ASSIGN_OR_RETURN(
      policy.namespaces,
      kube::ReadSelector(spec.value("namespaceSelector", Json::object()), "namespaceSelector"));
  policy.allowed_logdirs = spec.value("allowedLogdirs", std::vector<std::string>());
  policy.default_logdir = spec.value("defaultLogdir", "");
  RETURN_IF_ERROR(kube::ReadDuration(spec, "maxDuration", policy.max_duration));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "minInterval", policy.min_interval));
  policy.evidence = spec.value("evidence", "Allow") != "Deny";
  if (spec.contains("maxConcurrent")) policy.max_concurrent = spec["maxConcurrent"].get<int>();
  RETURN_IF_ERROR(ReadAutomatic(spec.value("automatic", Json::object()), policy.automatic));
  RETURN_IF_ERROR(ReadSidecar(spec.value("sidecar", Json::object()), policy));
  return kube::ReadBytes(spec, "maxBytesPerWorker", policy.max_bytes);
}

}  // namespace

ProfilePolicy ParsePolicy(const Json& object) {
  ProfilePolicy policy;
  try {
    const Json& metadata = object.at("metadata");
    policy.name = metadata.at("name");
    policy.uid = metadata.value("uid", "");
    policy.resource_version = metadata.value("resourceVersion", "");
    policy.generation = metadata.value("generation", std::int64_t{0});
    policy.conditions = kube::ReadConditions(object.value("status", Json::object()));
    if (const absl::Status status = ReadSpec(object.value("spec", Json::object()), policy);
        !status.ok()) {
      policy.invalid = MessageOf(status);
    }
  } catch (const Json::exception& error) {
    policy.invalid = StrCat("a field has the wrong type: ", error.what());
  }
  return policy;
}

std::string PoliciesPath() { return kube::CollectionPath("", kube::kPoliciesResource); }

Json PolicyStatusToJson(const ProfilePolicy& policy,
                        const std::vector<kube::Condition>& conditions) {
  // The UID and the version prevent writing about an object that is not the one that was judged.
  return {
      {"apiVersion", kube::kApiVersion},
      {"kind", "ProfilePolicy"},
      {"metadata",
       {{"name", policy.name}, {"uid", policy.uid}, {"resourceVersion", policy.resource_version}}},
      {"status",
       {{"observedGeneration", policy.generation},
        {"conditions", kube::ConditionsToJson(conditions)}}}};
}

}  // namespace strobe::policy
