#include "cli/cluster/fleet_job.h"

#include <gmock/gmock.h>

namespace strobe::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

FleetWishes Stored() {
  return {.image = "r/strobe:1", .logdir = "s3://b/logs", .out = "s3://b/tables", .workers = 3};
}

Json Made(const FleetWishes& wishes) { return Json(*MakeFleetJob(wishes)); }

Json ContainerOf(const Json& job) { return job["spec"]["template"]["spec"]["containers"][0]; }

TEST(MakeFleetJob, EachIndexRunsTheSameCommand) {
  FleetWishes wishes = Stored();
  const Json job = Made(wishes);
  EXPECT_EQ(job["spec"]["completionMode"], "Indexed");
  EXPECT_EQ(job["spec"]["completions"], 3);
  EXPECT_EQ(job["spec"]["parallelism"], 3);
  const std::vector<std::string> command = ContainerOf(job)["command"];
  EXPECT_THAT(command,
              testing::ElementsAre("/opt/strobe/bin/strobe", "fleet", "s3://b/logs", "--to=parquet",
                                   "--out=s3://b/tables", "--of=3", "--scratch=/scratch"));
  wishes.stats = false;
  wishes.at_once = 2;
  EXPECT_EQ(Made(wishes)["spec"]["parallelism"], 2);
  EXPECT_THAT(std::vector<std::string>(ContainerOf(Made(wishes))["command"]),
              Contains("--no-stats"));
}

TEST(MakeFleetJob, EvictionsDoNotCountAndHopelessSharesEnd) {
  FleetWishes wishes = Stored();
  wishes.hopeless_exit_codes = {2, kExitBadRuns};
  const Json spec = Made(wishes)["spec"];
  EXPECT_GT(spec["backoffLimitPerIndex"], 0);
  const Json& rules = spec["podFailurePolicy"]["rules"];
  EXPECT_EQ(rules[0]["action"], "Ignore");
  EXPECT_EQ(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
  EXPECT_EQ(rules[1]["action"], "FailIndex");
  EXPECT_EQ(rules[1]["onExitCodes"]["values"], Json({2, 3}));
  EXPECT_EQ(rules[1]["onExitCodes"]["containerName"], ContainerOf(Made(wishes))["name"]);
}

TEST(MakeFleetJob, PodsHaveWhatTheyNeedToReachTheirPlaces) {
  FleetWishes wishes = Stored();
  EXPECT_FALSE(ContainerOf(Made(wishes)).contains("envFrom"));
  EXPECT_FALSE(Made(wishes)["spec"]["template"]["spec"].contains("serviceAccountName"));
  wishes.service_account = "traces";
  wishes.secrets = {"keys"};
  wishes.logdir = "/nfs/logs";
  wishes.claims = {"shared:/nfs"};
  const Json job = Made(wishes);
  EXPECT_EQ(job["spec"]["template"]["spec"]["serviceAccountName"], "traces");
  EXPECT_EQ(ContainerOf(job)["envFrom"][0]["secretRef"]["name"], "keys");
  EXPECT_EQ(ContainerOf(job)["volumeMounts"][1]["mountPath"], "/nfs");
  EXPECT_EQ(job["spec"]["template"]["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"],
            "shared");
  const auto has_azure_label = [](const Json& made) {
    return made["spec"]["template"]["metadata"]["labels"].contains("azure.workload.identity/use");
  };
  EXPECT_FALSE(has_azure_label(job));
  wishes.out = "az://c/tables";
  EXPECT_TRUE(has_azure_label(Made(wishes)));
}

TEST(MakeFleetJob, WhatPodsCouldNotReachIsRefused) {
  const auto refused = [](const std::string& logdir, std::vector<std::string> claims) {
    FleetWishes wishes = Stored();
    wishes.logdir = logdir;
    wishes.claims = std::move(claims);
    const auto job = MakeFleetJob(wishes);
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
