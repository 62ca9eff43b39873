#include "cli/kube/viewer_job.h"

#include <gmock/gmock.h>

namespace strobe::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::json;
using Phase = ViewerState::Phase;

constexpr char kPod[] = R"({
  "kind": "Pod",
  "metadata": {"name": "llm-0", "creationTimestamp": "2026-01-01T00:00:00Z",
               "annotations": {"strobe.dev/viewer-image": "r/strobe-viewer:1"},
               "labels": {"azure.workload.identity/use": "true", "app": "x",
                          "batch.kubernetes.io/job-name": "llm"}},
  "spec": {
    "serviceAccountName": "trainer", "hostNetwork": true, "nodeName": "n",
    "securityContext": {"fsGroup": 2000, "runAsUser": 0},
    "imagePullSecrets": [{"name": "registry"}],
    "containers": [{"name": "train", "image": "trainer", "env": [{"name": "A", "value": "b"}]}],
    "initContainers": [{
      "name": "strobe-sidecar", "image": "r/strobe-sidecar:1", "imagePullPolicy": "Always",
      "restartPolicy": "Always", "args": ["--listen=[::]:9470"],
      "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "privileged": true},
      "env": [{"name": "POD_NAME"}, {"name": "STROBE_ROOTS", "value": "r"},
              {"name": "AWS_REGION", "value": "eu"}],
      "envFrom": [{"secretRef": {"name": "traces"}}],
      "volumeMounts": [
        {"name": "strobe", "mountPath": "/var/strobe"},
        {"name": "strobe-token", "mountPath": "/var/run/secrets/strobe", "readOnly": true},
        {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        {"name": "aws-iam-token", "mountPath": "/var/run/secrets/eks.amazonaws.com/serviceaccount"},
        {"name": "data", "mountPath": "/data"},
        {"name": "gone", "mountPath": "/gone"}]}],
    "volumes": [
      {"name": "strobe", "emptyDir": {}},
      {"name": "strobe-token",
       "projected": {"sources": [{"serviceAccountToken": {"audience": "strobe"}}]}},
      {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {}}]}},
      {"name": "aws-iam-token",
       "projected": {"sources": [{"serviceAccountToken": {"audience": "sts.amazonaws.com"}}]}},
      {"name": "data", "persistentVolumeClaim": {"claimName": "nfs"}}]}})";

Json Pod() { return Json::parse(kPod); }

Json Made(const Json& pod, ViewerJobOptions options = {.name = "v", .run = "s3://b/run"}) {
  return Json(*MakeViewerJob(options, pod, nullptr));
}

std::vector<std::string> Names(const Json& list) {
  std::vector<std::string> names;
  for (const Json& entry : list) names.push_back(entry["name"]);
  return names;
}

TEST(MakeViewerJob, TheViewerReachesTheLogdirAsTheSidecarDoes) {
  const Json spec = Made(Pod())["spec"]["template"]["spec"];
  const Json& viewer = spec["containers"][0];
  EXPECT_EQ(viewer["image"], "r/strobe-viewer:1");
  EXPECT_EQ(viewer["imagePullPolicy"], "Always");
  EXPECT_EQ(viewer["envFrom"][0]["secretRef"]["name"], "traces");
  EXPECT_THAT(Names(viewer["env"]), ElementsAre("AWS_REGION"));
  EXPECT_THAT(Names(viewer["volumeMounts"]), ElementsAre("aws-iam-token", "data", "strobe-cache"));
  EXPECT_THAT(Names(spec["volumes"]), ElementsAre("aws-iam-token", "data", "strobe-cache"));
  EXPECT_EQ(viewer["volumeMounts"][1]["readOnly"], true);
  EXPECT_EQ(spec["serviceAccountName"], "trainer");
  EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "registry");
  EXPECT_EQ(spec["securityContext"]["fsGroup"], 2000);
  EXPECT_EQ(Made(Pod())["spec"]["template"]["metadata"]["labels"]["azure.workload.identity/use"],
            "true");
}

TEST(MakeViewerJob, TheViewerHasNoMoreRightsThanItNeeds) {
  const Json spec = Made(Pod())["spec"]["template"]["spec"];
  EXPECT_FALSE(spec.contains("hostNetwork"));
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_FALSE(spec["securityContext"].contains("runAsUser"));
  const Json& context = spec["containers"][0]["securityContext"];
  EXPECT_FALSE(context.contains("privileged"));
  EXPECT_EQ(context["runAsUser"], 1000);
  EXPECT_EQ(context["allowPrivilegeEscalation"], false);
  EXPECT_EQ(context["readOnlyRootFilesystem"], true);
  EXPECT_EQ(context["capabilities"]["drop"][0], "ALL");
}

TEST(MakeViewerJob, KubernetesRemovesIt) {
  objects::ProfileRequest request;
  request.name = "look";
  request.uid = "u1";
  const Json job = *MakeViewerJob(
      {.name = "v", .run = "s3://b/run", .deadline = std::chrono::minutes(2)}, Pod(), &request);
  EXPECT_EQ(job["spec"]["activeDeadlineSeconds"], 120);
  EXPECT_EQ(job["spec"]["ttlSecondsAfterFinished"], 30) << "the command must see why it failed";
  EXPECT_EQ(job["spec"]["backoffLimit"], 0);
  EXPECT_EQ(job["metadata"]["ownerReferences"][0]["uid"], "u1");
  EXPECT_FALSE(job["metadata"]["ownerReferences"][0].contains("blockOwnerDeletion"))
      << "which takes the right to update finalizers of requests";
  const Json command = job["spec"]["template"]["spec"]["containers"][0]["command"];
  EXPECT_THAT(command.dump(), HasSubstr("--end-when-idle="));
  EXPECT_THAT(command.dump(), HasSubstr("--listen=127.0.0.1:"));
}

TEST(MakeViewerJob, AnImageThatIsNamedTakesPrecedenceOverThePods) {
  const ViewerJobOptions named{.name = "v", .run = "r", .image = "mine"};
  EXPECT_EQ(Made(Pod(), named)["spec"]["template"]["spec"]["containers"][0]["image"], "mine");
  Json silent = Pod();
  silent["metadata"].erase("annotations");
  EXPECT_EQ(Made(silent, named)["spec"]["template"]["spec"]["containers"][0]["image"], "mine");
  const absl::Status refused = MakeViewerJob({.name = "v", .run = "r"}, silent, nullptr).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("llm-0 has no annotation strobe.dev/viewer-image"));
  EXPECT_THAT(refused.message(), HasSubstr("--image"));
}

TEST(MakeViewerJob, WithoutAPodItTakesAnImage) {
  EXPECT_EQ(MakeViewerJob({.name = "v", .run = "r"}, Json(), nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const Json spec = Made(
      Json(),
      {.name = "v", .run = "r", .image = "i", .service_account = "a"})["spec"]["template"]["spec"];
  EXPECT_EQ(spec["containers"][0]["image"], "i");
  EXPECT_EQ(spec["serviceAccountName"], "a");
  EXPECT_THAT(Names(spec["containers"][0]["env"]), IsEmpty());
}

TEST(ChoosePod, PrefersTheTargetsAndThenTheNewest) {
  Json list = {{"items", {Pod(), Pod(), Pod(), Pod()}}};
  list["items"][1]["metadata"]["name"] = "other";
  list["items"][1]["metadata"]["creationTimestamp"] = "2026-01-03T00:00:00Z";
  list["items"][1]["metadata"]["labels"] = Json::object();
  list["items"][1]["metadata"]["ownerReferences"] = {{{"kind", "StatefulSet"}, {"name", "set"}}};
  list["items"][2]["metadata"]["name"] = "llm-1";
  list["items"][2]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z";
  list["items"][3]["metadata"]["name"] = "bare";
  list["items"][3]["metadata"]["creationTimestamp"] = "2026-01-09T00:00:00Z";
  list["items"][3]["spec"].erase("initContainers");
  const auto chosen = [&](const job::TargetSpec& target) {
    return ChoosePod(list, target)["metadata"]["name"];
  };
  EXPECT_EQ(chosen({}), "other");
  EXPECT_EQ(chosen({.job = kube::JobRef{"", "Job", "llm"}}), "llm-1");
  EXPECT_EQ(chosen({.job = kube::JobRef{"", "StatefulSet", "set"}}), "other");
  EXPECT_EQ(chosen({.pods = {"llm-0", "bare"}}), "llm-0");
  EXPECT_EQ(chosen({.job = kube::JobRef{"", "Job", "gone"}}), "other");
  EXPECT_TRUE(ChoosePod(Json{{"items", Json::array()}}, {}).is_null());
  EXPECT_TRUE(ChoosePod(Json("garbage"), {}).is_null());
}

Json Objects(const Json& pod_status) {
  Json items = {{{"kind", "Job"}, {"metadata", {{"name", "v"}}}, {"spec", Json::object()}}};
  if (!pod_status.is_null())
    items.push_back({{"kind", "Pod"}, {"metadata", {{"name", "v-x"}}}, {"status", pod_status}});
  return {{"items", items}};
}

ViewerState ContainerState(const Json& state) {
  return StateOf(Objects({{"phase", "Pending"}, {"containerStatuses", {{{"state", state}}}}}),
                 Json());
}

TEST(StateOf, SaysWhatTheViewerWaitsFor) {
  EXPECT_EQ(StateOf(Objects({{"phase", "Pending"}}), Json()).phase, Phase::kWaits);
  const ViewerState unscheduled = StateOf(Objects({{"phase", "Pending"},
                                                   {"conditions",
                                                    {{{"type", "PodScheduled"},
                                                      {"status", "False"},
                                                      {"reason", "Unschedulable"},
                                                      {"message", "0/3 nodes are available"}}}}}),
                                          Json());
  EXPECT_EQ(unscheduled.phase, Phase::kWaits) << "a node may be added";
  EXPECT_EQ(unscheduled.text, "Unschedulable: 0/3 nodes are available");
  EXPECT_EQ(ContainerState({{"waiting", {{"reason", "ContainerCreating"}}}}).phase, Phase::kWaits);
  EXPECT_EQ(ContainerState({{"waiting", {{"reason", "ErrImagePull"}}}}).phase, Phase::kWaits)
      << "it is tried again";
  Json suspended = Objects(Json());
  suspended["items"][0]["spec"]["suspend"] = true;
  EXPECT_THAT(StateOf(suspended, Json()).text, HasSubstr("suspended"));
}

TEST(StateOf, SaysWhyItEnded) {
  EXPECT_EQ(ContainerState({{"running", Json::object()}}).phase, Phase::kRuns);
  EXPECT_EQ(ContainerState({{"running", Json::object()}}).pod, "v-x");
  const ViewerState pull =
      ContainerState({{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "no such image"}}}});
  EXPECT_EQ(pull.phase, Phase::kEnded);
  EXPECT_EQ(pull.text, "ImagePullBackOff: no such image");
  const ViewerState late =
      StateOf(Objects({{"phase", "Failed"}, {"reason", "DeadlineExceeded"}}), Json());
  EXPECT_EQ(late.phase, Phase::kEnded);
  EXPECT_EQ(late.text, "DeadlineExceeded");
  const Json events = {{"items",
                        {{{"reason", "FailedCreate"},
                          {"message", "pods \"v-x\" is forbidden: exceeded quota: q"}}}}};
  EXPECT_EQ(StateOf(Objects(Json()), Json()).phase, Phase::kWaits);
  EXPECT_EQ(StateOf(Objects(Json()), events).phase, Phase::kEnded);
  EXPECT_THAT(StateOf(Objects(Json()), events).text, HasSubstr("exceeded quota"));
  EXPECT_EQ(StateOf(Json{{"items", Json::array()}}, Json()).text, "its Job was deleted");
  EXPECT_EQ(StateOf(Json("garbage"), Json()).phase, Phase::kEnded);
}

TEST(ForwardedPort, IsThatOfIpv4) {
  EXPECT_EQ(ForwardedPort("Forwarding from 127.0.0.1:40217 -> 6016"), 40217);
  EXPECT_EQ(ForwardedPort("Forwarding from [::1]:40217 -> 6016"), std::nullopt);
  EXPECT_EQ(ForwardedPort("Forwarding from 127.0.0.1:x"), std::nullopt);
  EXPECT_EQ(ForwardedPort("Handling connection for 40217"), std::nullopt);
}

TEST(CannotListen, IsTheLocalPortsFault) {
  EXPECT_TRUE(CannotListen("error: unable to listen on any of the requested ports: [{8080 6016}]"));
  EXPECT_TRUE(CannotListen("Unable to listen on port 8080: Listeners failed to create"));
  EXPECT_FALSE(CannotListen("error: lost connection to pod"));
  EXPECT_FALSE(CannotListen("unable to connect to the server"));
}

}  // namespace
}  // namespace strobe::cluster
