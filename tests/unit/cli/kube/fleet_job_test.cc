#include "cli/kube/fleet_job.h"

#include <gmock/gmock.h>

namespace strobe::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

FleetJobOptions Stored() {
  return {.image = "r/strobe:1", .logdir = "s3://b/logs", .out = "s3://b/tables", .workers = 3};
}

Json Made(const FleetJobOptions& options) { return Json(*MakeFleetJob(options)); }

Json ContainerOf(const Json& job) { return job["spec"]["template"]["spec"]["containers"][0]; }

TEST(MakeFleetJob, EachIndexRunsTheSameCommand) {
  FleetJobOptions options = Stored();
  const Json job = Made(options);
  EXPECT_EQ(job["spec"]["completionMode"], "Indexed");
  EXPECT_EQ(job["spec"]["completions"], 3);
  EXPECT_EQ(job["spec"]["parallelism"], 3);
  const std::vector<std::string> command = ContainerOf(job)["command"];
  EXPECT_THAT(command,
              testing::ElementsAre("/opt/strobe/bin/strobe", "fleet", "s3://b/logs", "--to=parquet",
                                   "--out=s3://b/tables", "--of=3", "--scratch=/scratch"));
  options.stats = false;
  options.at_once = 2;
  EXPECT_EQ(Made(options)["spec"]["parallelism"], 2);
  EXPECT_THAT(std::vector<std::string>(ContainerOf(Made(options))["command"]),
              Contains("--no-stats"));
}

TEST(MakeFleetJob, EvictionsDoNotCountAndHopelessSharesEnd) {
  FleetJobOptions options = Stored();
  options.hopeless_exit_codes = {2, kExitBadRuns};
  const Json spec = Made(options)["spec"];
  EXPECT_GT(spec["backoffLimitPerIndex"], 0);
  const Json& rules = spec["podFailurePolicy"]["rules"];
  EXPECT_EQ(rules[0]["action"], "Ignore");
  EXPECT_EQ(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
  EXPECT_EQ(rules[1]["action"], "FailIndex");
  EXPECT_EQ(rules[1]["onExitCodes"]["values"], Json({2, 3}));
  EXPECT_EQ(rules[1]["onExitCodes"]["containerName"], ContainerOf(Made(options))["name"]);
}

TEST(MakeFleetJob, PodsHaveWhatTheyNeedToReachTheirPlaces) {
  FleetJobOptions options = Stored();
  EXPECT_FALSE(ContainerOf(Made(options)).contains("envFrom"));
  EXPECT_FALSE(Made(options)["spec"]["template"]["spec"].contains("serviceAccountName"));
  options.service_account = "traces";
  options.secrets = {"keys"};
  options.logdir = "/nfs/logs";
  options.claims = {"shared:/nfs"};
  const Json job = Made(options);
  EXPECT_EQ(job["spec"]["template"]["spec"]["serviceAccountName"], "traces");
  EXPECT_EQ(ContainerOf(job)["envFrom"][0]["secretRef"]["name"], "keys");
  EXPECT_EQ(ContainerOf(job)["volumeMounts"][1]["mountPath"], "/nfs");
  EXPECT_EQ(job["spec"]["template"]["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"],
            "shared");
  const auto has_azure_label = [](const Json& made) {
    return made["spec"]["template"]["metadata"]["labels"].contains("azure.workload.identity/use");
  };
  EXPECT_FALSE(has_azure_label(job));
  options.out = "az://c/tables";
  EXPECT_TRUE(has_azure_label(Made(options)));
}

TEST(MakeFleetJob, WhatPodsCouldNotReachIsRefused) {
  const auto refused = [](const std::string& logdir, std::vector<std::string> claims) {
    FleetJobOptions options = Stored();
    options.logdir = logdir;
    options.claims = std::move(claims);
    const auto job = MakeFleetJob(options);
    EXPECT_TRUE(absl::IsInvalidArgument(job.status())) << logdir;
    return std::string(job.status().message());
  };
  EXPECT_THAT(refused("/nfs/logs", {}), HasSubstr("--claim traces:/nfs"));
  refused("logs", {});
  refused("ftp://b/logs", {});
  for (const char* claim : {"shared", ":/nfs", "shared:nfs", "shared:"})
    EXPECT_THAT(refused("/nfs/logs", {claim}), HasSubstr("is not a claim and a path"));
}

}  // namespace
}  // namespace strobe::cluster
