#include "cli/kube/viewer_job.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "common/base/strings.h"
#include "operator/base/job_kinds.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::cluster {
namespace {

using kube::Find;
using kube::Member;
using kube::TextOf;
using PlainJson = nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "/opt/strobe/bin/strobe", kCache[] = "/var/cache/strobe";
// A viewer that has failed is kept this long, so that the command sees why.
constexpr int kKeepFailedSeconds = 30;
// The disk that indexes may take, and the time after which a viewer ends whose user is gone.
constexpr char kCacheSize[] = "4Gi", kIdle[] = "1m";
// Where the API server mounts the token of the pod's own service account.
constexpr char kApiToken[] = "/var/run/secrets/kubernetes.io/serviceaccount";

bool IsOf(const PlainJson& pod, const job::TargetSpec& target) {
  const PlainJson& metadata = kube::Member(pod, "metadata");
  if (!target.pods.empty())
    return std::find(target.pods.begin(), target.pods.end(), kube::TextOf(metadata, "name")) !=
           target.pods.end();
  if (!target.job) return false;
  const kube::JobKind* kind = kube::FindJobKind(*target.job);
  if (kind == nullptr) return false;
  if (kind->pods == kube::JobKind::Pods::kLabelled)
    return kube::TextOf(kube::Member(metadata, "labels"), std::string(kind->label)) ==
           target.job->name;
  const std::string hash = kube::TextOf(kube::Member(metadata, "labels"), kube::kTemplateHashLabel);
  const PlainJson& owners = kube::Member(metadata, "ownerReferences");
  return owners.is_array() && std::any_of(owners.begin(), owners.end(), [&](const PlainJson& one) {
           return kube::OwnsPods(*target.job, kube::TextOf(one, "kind"), kube::TextOf(one, "name"),
                                 hash);
         });
}

// Whether the volume is of no use to the viewer: an emptyDir, or the token with which a sidecar
// enrolls.
bool IsOfSidecarOnly(const PlainJson& volume) {
  if (volume.contains("emptyDir")) return true;
  for (const PlainJson& source : kube::Member(kube::Member(volume, "projected"), "sources")) {
    if (kube::TextOf(kube::Member(source, "serviceAccountToken"), "audience") ==
        kube::kTokenAudience)
      return true;
  }
  return false;
}

struct Volumes {
  Json volumes = Json::array(), mounts = Json::array();
};

Volumes VolumesOf(const PlainJson& spec, const PlainJson& sidecar) {
  Volumes taken;
  const PlainJson& volumes = kube::Member(spec, "volumes");
  std::set<std::string> names;
  for (const PlainJson& mount : kube::Member(sidecar, "volumeMounts")) {
    const std::string name = kube::TextOf(mount, "name");
    const auto volume = kube::Find(volumes, name);
    if (!volume || IsOfSidecarOnly(volumes[*volume]) ||
        kube::TextOf(mount, "mountPath") == kApiToken)
      continue;
    Json read_only = mount;
    read_only["readOnly"] = true;
    taken.mounts.push_back(std::move(read_only));
    if (names.insert(name).second) taken.volumes.push_back(Json(volumes[*volume]));
  }
  taken.volumes.push_back({{"name", "strobe-cache"}, {"emptyDir", {{"sizeLimit", kCacheSize}}}});
  taken.mounts.push_back({{"name", "strobe-cache"}, {"mountPath", kCache}});
  return taken;
}

Json EnvironmentOf(const PlainJson& sidecar) {
  Json environment = Json::array();
  for (const PlainJson& variable : kube::Member(sidecar, "env")) {
    const std::string name = kube::TextOf(variable, "name");
    if (name != "POD_NAME" && name != "STROBE_ROOTS") environment.push_back(Json(variable));
  }
  return environment;
}

// Satisfies the restricted Pod Security Standard, whatever the sidecar's own context is.
Json SecurityContextOf(const PlainJson& sidecar) {
  Json context = {{"allowPrivilegeEscalation", false},
                  {"capabilities", {{"drop", {"ALL"}}}},
                  {"readOnlyRootFilesystem", true},
                  {"runAsNonRoot", true},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  for (const char* field : {"runAsUser", "runAsGroup"}) {
    if (const PlainJson& id = kube::Member(kube::Member(sidecar, "securityContext"), field);
        id.is_number_integer())
      context[field] = id;
  }
  return context;
}

Json Container(const ViewerJobOptions& options, const PlainJson& sidecar, Json mounts) {
  Json container = {
      {"name", "viewer"},
      {"image", options.image},
      {"command",
       {kProgram, "view", options.run, StrCat("--listen=127.0.0.1:", kViewerPort),
        StrCat("--cache=", kCache), StrCat("--end-when-idle=", kIdle)}},
      {"env", EnvironmentOf(sidecar)},
      {"resources",
       {{"requests", {{"cpu", "100m"}, {"memory", "256Mi"}, {"ephemeral-storage", "64Mi"}}},
        {"limits", {{"cpu", "4"}, {"memory", options.memory}, {"ephemeral-storage", "5Gi"}}}}},
      {"securityContext", SecurityContextOf(sidecar)},
      // The pod's status then tells why the viewer failed, so that the command needs no log.
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts", std::move(mounts)}};
  for (const char* field : {"envFrom", "imagePullPolicy"}) {
    if (const PlainJson& value = kube::Member(sidecar, field); !value.is_null())
      container[field] = value;
  }
  return container;
}

// Takes from the pod's own security context only what decides who may read its volumes.
Json PodSecurityContext(const PlainJson& spec) {
  Json context = {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  for (const char* field : {"fsGroup", "fsGroupChangePolicy", "supplementalGroups"}) {
    const PlainJson& value = kube::Member(kube::Member(spec, "securityContext"), field);
    if (!value.is_null()) context[field] = value;
  }
  return context;
}

Json Template(const ViewerJobOptions& options, const PlainJson& pod) {
  const PlainJson& spec = kube::Member(pod, "spec");
  const PlainJson& sidecar = job::SidecarOf(spec);
  Volumes volumes = VolumesOf(spec, sidecar);
  // A mesh's proxy would never let the Job end, and needs none of the viewer's traffic.
  Json labels = {{kube::kViewerLabel, options.name},
                 {kube::kInjectLabel, "false"},
                 {"sidecar.istio.io/inject", "false"}};
  // Azure gives an identity only to pods with this label.
  const std::string azure = "azure.workload.identity/use";
  if (const std::string use =
          kube::TextOf(kube::Member(kube::Member(pod, "metadata"), "labels"), azure);
      !use.empty())
    labels[azure] = use;
  Json made = {{"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", 5},
               {"securityContext", PodSecurityContext(spec)},
               {"containers", {Container(options, sidecar, std::move(volumes.mounts))}},
               {"volumes", std::move(volumes.volumes)}};
  const std::string account = options.service_account.empty()
                                  ? kube::TextOf(spec, "serviceAccountName")
                                  : options.service_account;
  if (!account.empty()) made["serviceAccountName"] = account;
  if (const PlainJson& secrets = kube::Member(spec, "imagePullSecrets"); !secrets.is_null())
    made["imagePullSecrets"] = secrets;
  return {{"metadata",
           {{"labels", std::move(labels)}, {"annotations", {{"linkerd.io/inject", "disabled"}}}}},
          {"spec", std::move(made)}};
}

// Reasons why a container waits that do not pass with time.
constexpr std::array<std::string_view, 5> kStuck = {"ImagePullBackOff", "ErrImageNeverPull",
                                                    "InvalidImageName", "CreateContainerError",
                                                    "CreateContainerConfigError"};

std::string WithReason(const PlainJson& state) {
  const std::string message = kube::TextOf(state, "message");
  return StrCat(kube::TextOf(state, "reason"), message.empty() ? "" : ": ", message);
}

ViewerState PodState(const PlainJson& pod) {
  using Phase = ViewerState::Phase;
  const PlainJson& status = kube::Member(pod, "status");
  ViewerState state{Phase::kWaits, kube::TextOf(kube::Member(pod, "metadata"), "name"),
                    "it is being created"};
  const std::string phase = kube::TextOf(status, "phase");
  const PlainJson& containers = kube::Member(status, "containerStatuses");
  const PlainJson container =
      containers.empty() ? PlainJson() : kube::Member(containers[0], "state");
  if (phase == "Failed" || phase == "Succeeded") {
    state.phase = Phase::kEnded;
    state.text =
        WithReason(status.contains("reason") ? status : kube::Member(container, "terminated"));
  } else if (container.contains("running")) {
    state.phase = Phase::kRuns;
  } else if (const std::string reason = kube::TextOf(kube::Member(container, "waiting"), "reason");
             !reason.empty()) {
    state.text = WithReason(kube::Member(container, "waiting"));
    if (std::find(kStuck.begin(), kStuck.end(), reason) != kStuck.end())
      state.phase = Phase::kEnded;
  } else if (const PlainJson& conditions = kube::Member(status, "conditions");
             conditions.is_array()) {
    const auto scheduled = kube::FindBy(conditions, "type", "PodScheduled");
    if (scheduled && kube::TextOf(conditions[*scheduled], "status") == "False")
      state.text = WithReason(conditions[*scheduled]);
  }
  return state;
}

}  // namespace

std::vector<std::string> InjectedPodArguments() {
  return {"get", "pods", StrCat("--selector=", kube::kInjectedLabel, "=true"), "--output=json"};
}

PlainJson ChoosePod(const PlainJson& list, const job::TargetSpec& target) {
  const PlainJson* best = nullptr;
  std::pair<bool, std::string> rank;
  for (const PlainJson& pod : kube::Member(list, "items")) {
    if (job::SidecarOf(kube::Member(pod, "spec")).is_null()) continue;
    std::pair<bool, std::string> its{
        IsOf(pod, target), kube::TextOf(kube::Member(pod, "metadata"), "creationTimestamp")};
    if (best != nullptr && its <= rank) continue;
    best = &pod;
    rank = std::move(its);
  }
  return best == nullptr ? PlainJson() : *best;
}

absl::StatusOr<Json> MakeViewerJob(ViewerJobOptions options, const PlainJson& pod,
                                   const objects::ProfileRequest* request) {
  if (pod.is_null() && options.image.empty()) {
    return absl::FailedPreconditionError(
        "no pod of this namespace has Strobe's sidecar, whose storage settings the viewer would "
        "use; give an image with --image and an identity with --service-account");
  }
  if (options.image.empty()) {
    const PlainJson& metadata = kube::Member(pod, "metadata");
    options.image =
        kube::TextOf(kube::Member(metadata, "annotations"), kube::kViewerImageAnnotation);
    if (options.image.empty())
      return absl::FailedPreconditionError(
          StrCat("pod ", kube::TextOf(metadata, "name"), " has no annotation ",
                 kube::kViewerImageAnnotation,
                 ", which would name the viewer's image; give one with --image"));
  }
  Json metadata = {{"name", options.name},
                   {"labels",
                    {{kube::kViewerLabel, options.name},
                     {kube::kAppNameLabel, "strobe-viewer"},
                     {"app.kubernetes.io/managed-by", "kubectl-strobe"}}}};
  if (request != nullptr) {
    metadata["ownerReferences"] = {{{"apiVersion", kube::kApiVersion},
                                    {"kind", kube::kRequestKind},
                                    {"name", request->name},
                                    {"uid", request->uid}}};
  }
  const auto deadline = std::chrono::duration_cast<std::chrono::seconds>(options.deadline).count();
  return Json{{"apiVersion", "batch/v1"},
              {"kind", "Job"},
              {"metadata", std::move(metadata)},
              {"spec",
               {{"backoffLimit", 0},
                {"activeDeadlineSeconds", std::max<std::int64_t>(deadline, 1)},
                {"ttlSecondsAfterFinished", kKeepFailedSeconds},
                {"template", Template(options, pod)}}}};
}

ViewerState StateOf(const PlainJson& objects, const PlainJson& events) {
  ViewerState state{ViewerState::Phase::kWaits, "", "its Job is creating a pod"};
  bool exists = false;
  for (const PlainJson& object : kube::Member(objects, "items")) {
    if (kube::TextOf(object, "kind") == "Pod") return PodState(object);
    exists = true;
    if (kube::Member(kube::Member(object, "spec"), "suspend") == true)
      state.text = "its Job is suspended; a queue such as Kueue does this until there is room";
  }
  if (!exists) return {ViewerState::Phase::kEnded, "", "its Job was deleted"};
  for (const PlainJson& event : kube::Member(events, "items")) {
    if (kube::TextOf(event, "reason") == "FailedCreate")
      return {ViewerState::Phase::kEnded, "", kube::TextOf(event, "message")};
  }
  return state;
}

std::optional<int> ForwardedPort(std::string_view line) {
  constexpr std::string_view kBegin = "Forwarding from 127.0.0.1:";
  if (!line.starts_with(kBegin)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  int port = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), port).ec != std::errc()) return {};
  return port;
}

bool CannotListen(std::string_view message) {
  return ContainsIgnoreCase(message, "unable to listen on");
}

}  // namespace strobe::cluster
