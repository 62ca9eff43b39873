#include "cli/cluster/fleet_job.h"

#include "collector/logdir/logdir.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/core/names.h"

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

absl::StatusOr<FleetVolumes> VolumesOf(const FleetWishes& wishes) {
  FleetVolumes made;
  made.volumes.push_back({{"name", "scratch"}, {"emptyDir", {{"sizeLimit", wishes.disk}}}});
  made.mounts.push_back({{"name", "scratch"}, {"mountPath", kScratch}});
  for (const std::string& claim : wishes.claims) {
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
absl::StatusOr<bool> UsesAzure(const FleetWishes& wishes) {
  bool azure = false;
  for (const std::string& place : {wishes.logdir, wishes.out}) {
    ASSIGN_OR_RETURN(const Logdir logdir, Logdir::Parse(place));
    if (logdir.scheme() == "file" && wishes.claims.empty())
      return absl::InvalidArgumentError(
          StrCat(place,
                 " is a path, for which the pods need a volume; give its claim and where to mount "
                 "it, such as --claim traces:/nfs"));
    azure = azure || logdir.scheme() == "az";
  }
  return azure;
}

Json CommandOf(const FleetWishes& wishes) {
  Json command = {kFleetProgram,
                  "fleet",
                  wishes.logdir,
                  "--to=parquet",
                  StrCat("--out=", wishes.out),
                  StrCat("--of=", wishes.workers),
                  StrCat("--scratch=", kScratch)};
  if (!wishes.stats) command.push_back("--no-stats");
  return command;
}

Json FleetContainerOf(const FleetWishes& wishes, Json mounts) {
  Json container = {
      {"name", kFleetContainer},
      {"image", wishes.image},
      {"command", CommandOf(wishes)},
      {"resources",
       {{"requests",
         {{"cpu", wishes.cpu}, {"memory", wishes.memory}, {"ephemeral-storage", wishes.disk}}},
        {"limits", {{"memory", wishes.memory}, {"ephemeral-storage", wishes.disk}}}}},
      // The restricted Pod Security Standard.
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"capabilities", {{"drop", {"ALL"}}}},
        {"readOnlyRootFilesystem", true}}},
      {"volumeMounts", std::move(mounts)}};
  if (!wishes.secrets.empty()) {
    container["envFrom"] = Json::array();
    for (const std::string& secret : wishes.secrets)
      container["envFrom"].push_back({{"secretRef", {{"name", secret}}}});
  }
  return container;
}

Json FailurePolicy(const FleetWishes& wishes) {
  Json evicted = {{"action", "Ignore"},
                  {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
  Json hopeless = {{"action", "FailIndex"},
                   {"onExitCodes",
                    {{"containerName", kFleetContainer},
                     {"operator", "In"},
                     {"values", wishes.hopeless_exit_codes}}}};
  return {{"rules", Json::array({std::move(evicted), std::move(hopeless)})}};
}

}  // namespace

absl::StatusOr<Json> MakeFleetJob(const FleetWishes& wishes) {
  ASSIGN_OR_RETURN(const bool azure, UsesAzure(wishes));
  ASSIGN_OR_RETURN(FleetVolumes volumes, VolumesOf(wishes));
  const Json labels = {{kAppNameLabel, "strobe-fleet"},
                       {"app.kubernetes.io/instance", wishes.name}};
  Json pod_labels = labels;
  // Without it, Azure gives a service account's pods no token.
  if (azure) pod_labels["azure.workload.identity/use"] = "true";
  Json spec = {{"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"securityContext",
                {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"containers", {FleetContainerOf(wishes, std::move(volumes.mounts))}},
               {"volumes", std::move(volumes.volumes)}};
  if (!wishes.service_account.empty()) spec["serviceAccountName"] = wishes.service_account;
  const std::uint32_t at_once = wishes.at_once == 0 ? wishes.workers : wishes.at_once;
  return Json{{"apiVersion", "batch/v1"},
              {"kind", "Job"},
              {"metadata", {{"name", wishes.name}, {"labels", labels}}},
              {"spec",
               {{"completionMode", "Indexed"},
                {"completions", wishes.workers},
                {"parallelism", at_once},
                {"backoffLimitPerIndex", kTriesAgain},
                {"podFailurePolicy", FailurePolicy(wishes)},
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
