#include "cli/kube/fleet_job.h"

#include "collector/store/logdir.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFleetProgram[] = "/opt/strobe/bin/strobe", kScratch[] = "/scratch";
constexpr char kFleetContainer[] = "fleet";
// An index that fails for another reason than an eviction or a damaged run is tried again this
// often.
constexpr int kTriesAgain = 3;
// What is left of a finished Job is kept this long, so that its logs can be read.
constexpr int kKeepSeconds = 7 * 24 * 3600;
// Enough to take back what was written of a run; spot instances give at least 30 seconds.
constexpr int kGraceSeconds = 30;

struct FleetVolumes {
  Json volumes = Json::array(), mounts = Json::array();
};

absl::StatusOr<FleetVolumes> VolumesOf(const FleetJobOptions& options) {
  FleetVolumes made;
  made.volumes.push_back({{"name", "scratch"}, {"emptyDir", {{"sizeLimit", options.disk}}}});
  made.mounts.push_back({{"name", "scratch"}, {"mountPath", kScratch}});
  for (const std::string& claim : options.claims) {
    const std::size_t colon = claim.find(':');
    if (colon == 0 || colon == std::string::npos || claim.substr(colon + 1, 1) != "/")
      return absl::InvalidArgumentError(
          StrCat("\"", claim, "\" is not a claim and a path, such as traces:/nfs"));
    const std::string name = StrCat("claim-", made.mounts.size());
    made.volumes.push_back(
        {{"name", name}, {"persistentVolumeClaim", {{"claimName", claim.substr(0, colon)}}}});
    made.mounts.push_back({{"name", name}, {"mountPath", claim.substr(colon + 1)}});
  }
  return made;
}

// Both places must mean the same in every pod.
absl::StatusOr<bool> UsesAzure(const FleetJobOptions& options) {
  bool azure = false;
  for (const std::string& place : {options.logdir, options.out}) {
    ASSIGN_OR_RETURN(const storage::Logdir logdir, storage::Logdir::Parse(place));
    if (logdir.scheme() == "file" && options.claims.empty())
      return absl::InvalidArgumentError(
          StrCat(place,
                 " is a path, for which the pods need a volume; give its claim and where to mount "
                 "it, such as --claim traces:/nfs"));
    azure = azure || logdir.scheme() == "az";
  }
  return azure;
}

Json CommandOf(const FleetJobOptions& options) {
  Json command = {kFleetProgram,
                  "fleet",
                  options.logdir,
                  "--to=parquet",
                  StrCat("--out=", options.out),
                  StrCat("--of=", options.workers),
                  StrCat("--scratch=", kScratch)};
  if (!options.stats) command.push_back("--no-stats");
  return command;
}

Json FleetContainerOf(const FleetJobOptions& options, Json mounts) {
  Json container = {
      {"name", kFleetContainer},
      {"image", options.image},
      {"command", CommandOf(options)},
      {"resources",
       {{"requests",
         {{"cpu", options.cpu}, {"memory", options.memory}, {"ephemeral-storage", options.disk}}},
        {"limits", {{"memory", options.memory}, {"ephemeral-storage", options.disk}}}}},
      // The restricted Pod Security Standard.
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"capabilities", {{"drop", {"ALL"}}}},
        {"readOnlyRootFilesystem", true}}},
      {"volumeMounts", std::move(mounts)}};
  if (!options.secrets.empty()) {
    container["envFrom"] = Json::array();
    for (const std::string& secret : options.secrets)
      container["envFrom"].push_back({{"secretRef", {{"name", secret}}}});
  }
  return container;
}

Json FailurePolicy(const FleetJobOptions& options) {
  Json evicted = {{"action", "Ignore"},
                  {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
  Json hopeless = {{"action", "FailIndex"},
                   {"onExitCodes",
                    {{"containerName", kFleetContainer},
                     {"operator", "In"},
                     {"values", options.hopeless_exit_codes}}}};
  return {{"rules", Json::array({std::move(evicted), std::move(hopeless)})}};
}

}  // namespace

absl::StatusOr<Json> MakeFleetJob(const FleetJobOptions& options) {
  ASSIGN_OR_RETURN(const bool azure, UsesAzure(options));
  ASSIGN_OR_RETURN(FleetVolumes volumes, VolumesOf(options));
  const Json labels = {{kube::kAppNameLabel, "strobe-fleet"},
                       {"app.kubernetes.io/instance", options.name}};
  Json pod_labels = labels;
  // Without it, Azure gives a service account's pods no token.
  if (azure) pod_labels["azure.workload.identity/use"] = "true";
  Json spec = {{"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"securityContext",
                {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"containers", {FleetContainerOf(options, std::move(volumes.mounts))}},
               {"volumes", std::move(volumes.volumes)}};
  if (!options.service_account.empty()) spec["serviceAccountName"] = options.service_account;
  const std::uint32_t at_once = options.at_once == 0 ? options.workers : options.at_once;
  return Json{{"apiVersion", "batch/v1"},
              {"kind", "Job"},
              {"metadata", {{"name", options.name}, {"labels", labels}}},
              {"spec",
               {{"completionMode", "Indexed"},
                {"completions", options.workers},
                {"parallelism", at_once},
                {"backoffLimitPerIndex", kTriesAgain},
                {"podFailurePolicy", FailurePolicy(options)},
                {"ttlSecondsAfterFinished", kKeepSeconds},
                {"template",
                 {{"metadata",
                   {{"labels", pod_labels},
                    // A mesh's proxy would keep the pod from ending.
                    {"annotations",
                     {{"linkerd.io/inject", "disabled"}, {"sidecar.istio.io/inject", "false"}}}}},
                  {"spec", std::move(spec)}}}}}};
}

}  // namespace strobe::cluster
