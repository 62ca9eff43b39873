#include "cli/cluster/viewer_job.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "common/base/strings.h"
#include "operator/core/names.h"
#include "operator/objects/json_members.h"
#include "operator/objects/pod_containers.h"

namespace strobe::cluster {
namespace {

using kube::Find;
using kube::Member;
using kube::TextOf;
using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr char kProgram[] = "/opt/strobe/bin/strobe", kCache[] = "/var/cache/strobe";
// The disk that indexes may take, and the time after which a viewer ends whose user is gone.
constexpr char kCacheSize[] = "4Gi", kIdle[] = "1m";
// Where the API server mounts the token of the pod's own service account.
constexpr char kApiToken[] = "/var/run/secrets/kubernetes.io/serviceaccount";

bool IsOf(const Json& pod, const TargetSpec& target) {
  const Json& metadata = Member(pod, "metadata");
  if (!target.pods.empty())
    return std::find(target.pods.begin(), target.pods.end(), TextOf(metadata, "name")) !=
           target.pods.end();
  if (!target.job) return false;
  const JobKind* kind = FindJobKind(*target.job);
  if (kind == nullptr) return false;
  if (kind->pods == JobKind::Pods::kLabelled)
    return TextOf(Member(metadata, "labels"), std::string(kind->label)) == target.job->name;
  return Find(Member(metadata, "ownerReferences"), target.job->name).has_value();
}

// What the viewer cannot use: empty folders, and the token with which a sidecar enrolls.
bool IsOfSidecarOnly(const Json& volume) {
  if (volume.contains("emptyDir")) return true;
  for (const Json& source : Member(Member(volume, "projected"), "sources")) {
    if (TextOf(Member(source, "serviceAccountToken"), "audience") == kTokenAudience) return true;
  }
  return false;
}

struct Volumes {
  Ordered volumes = Ordered::array(), mounts = Ordered::array();
};

Volumes VolumesOf(const Json& spec, const Json& sidecar) {
  Volumes taken;
  const Json& volumes = Member(spec, "volumes");
  std::set<std::string> names;
  for (const Json& mount : Member(sidecar, "volumeMounts")) {
    const std::string name = TextOf(mount, "name");
    const auto volume = Find(volumes, name);
    if (!volume || IsOfSidecarOnly(volumes[*volume]) || TextOf(mount, "mountPath") == kApiToken)
      continue;
    Ordered read_only = mount;
    read_only["readOnly"] = true;
    taken.mounts.push_back(std::move(read_only));
    if (names.insert(name).second) taken.volumes.push_back(Ordered(volumes[*volume]));
  }
  taken.volumes.push_back({{"name", "strobe-cache"}, {"emptyDir", {{"sizeLimit", kCacheSize}}}});
  taken.mounts.push_back({{"name", "strobe-cache"}, {"mountPath", kCache}});
  return taken;
}

Ordered EnvironmentOf(const Json& sidecar) {
  Ordered environment = Ordered::array();
  for (const Json& variable : Member(sidecar, "env")) {
    const std::string name = TextOf(variable, "name");
    if (name != "POD_NAME" && name != "STROBE_ROOTS") environment.push_back(Ordered(variable));
  }
  return environment;
}

// Under the restricted Pod Security Standard, whatever the sidecar has.
Ordered SecurityContextOf(const Json& sidecar) {
  Ordered context = {{"allowPrivilegeEscalation", false},
                     {"capabilities", {{"drop", {"ALL"}}}},
                     {"readOnlyRootFilesystem", true},
                     {"runAsNonRoot", true},
                     {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  for (const char* field : {"runAsUser", "runAsGroup"}) {
    if (const Json& id = Member(Member(sidecar, "securityContext"), field); id.is_number_integer())
      context[field] = id;
  }
  return context;
}

Ordered Container(const ViewerWishes& wishes, const Json& sidecar, Ordered mounts) {
  Ordered container = {
      {"name", "viewer"},
      {"image", wishes.image.empty() ? TextOf(sidecar, "image") : wishes.image},
      {"command",
       {kProgram, "view", wishes.run, StrCat("--listen=127.0.0.1:", kViewerPort),
        StrCat("--cache=", kCache), StrCat("--end-when-idle=", kIdle)}},
      {"env", EnvironmentOf(sidecar)},
      {"resources",
       {{"requests", {{"cpu", "100m"}, {"memory", "256Mi"}, {"ephemeral-storage", "64Mi"}}},
        {"limits", {{"cpu", "4"}, {"memory", wishes.memory}, {"ephemeral-storage", "5Gi"}}}}},
      {"securityContext", SecurityContextOf(sidecar)},
      {"volumeMounts", std::move(mounts)}};
  for (const char* field : {"envFrom", "imagePullPolicy"}) {
    if (const Json& value = Member(sidecar, field); !value.is_null()) container[field] = value;
  }
  return container;
}

// Takes from the pod's own security context only what decides who may read its volumes.
Ordered PodSecurityContext(const Json& spec) {
  Ordered context = {{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  for (const char* field : {"fsGroup", "fsGroupChangePolicy", "supplementalGroups"}) {
    const Json& value = Member(Member(spec, "securityContext"), field);
    if (!value.is_null()) context[field] = value;
  }
  return context;
}

Ordered Template(const ViewerWishes& wishes, const Json& pod) {
  const Json& spec = Member(pod, "spec");
  const Json& sidecar = SidecarOf(spec);
  Volumes volumes = VolumesOf(spec, sidecar);
  // A mesh's proxy would never let the Job end, and needs none of the viewer's traffic.
  Ordered labels = {
      {kViewerLabel, wishes.name}, {kInjectLabel, "false"}, {"sidecar.istio.io/inject", "false"}};
  // Azure gives an identity only to pods with this label.
  const std::string azure = "azure.workload.identity/use";
  if (const std::string use = TextOf(Member(Member(pod, "metadata"), "labels"), azure);
      !use.empty())
    labels[azure] = use;
  Ordered made = {{"restartPolicy", "Never"},
                  {"automountServiceAccountToken", false},
                  {"enableServiceLinks", false},
                  {"terminationGracePeriodSeconds", 5},
                  {"securityContext", PodSecurityContext(spec)},
                  {"containers", {Container(wishes, sidecar, std::move(volumes.mounts))}},
                  {"volumes", std::move(volumes.volumes)}};
  const std::string account =
      wishes.service_account.empty() ? TextOf(spec, "serviceAccountName") : wishes.service_account;
  if (!account.empty()) made["serviceAccountName"] = account;
  if (const Json& secrets = Member(spec, "imagePullSecrets"); !secrets.is_null())
    made["imagePullSecrets"] = secrets;
  return {{"metadata",
           {{"labels", std::move(labels)}, {"annotations", {{"linkerd.io/inject", "disabled"}}}}},
          {"spec", std::move(made)}};
}

// Reasons of a container that waits, which time alone will not change.
constexpr std::array<std::string_view, 5> kStuck = {"ImagePullBackOff", "ErrImageNeverPull",
                                                    "InvalidImageName", "CreateContainerError",
                                                    "CreateContainerConfigError"};

std::string WithReason(const Json& state) {
  const std::string message = TextOf(state, "message");
  return StrCat(TextOf(state, "reason"), message.empty() ? "" : ": ", message);
}

ViewerState PodState(const Json& pod) {
  using Phase = ViewerState::Phase;
  const Json& status = Member(pod, "status");
  ViewerState state{Phase::kWaits, TextOf(Member(pod, "metadata"), "name"), "it is created"};
  const std::string phase = TextOf(status, "phase");
  const Json& containers = Member(status, "containerStatuses");
  const Json container = containers.empty() ? Json() : Member(containers[0], "state");
  if (phase == "Failed" || phase == "Succeeded") {
    state.phase = Phase::kEnded;
    state.text = WithReason(status.contains("reason") ? status : Member(container, "terminated"));
  } else if (container.contains("running")) {
    state.phase = Phase::kRuns;
  } else if (const std::string reason = TextOf(Member(container, "waiting"), "reason");
             !reason.empty()) {
    state.text = WithReason(Member(container, "waiting"));
    if (std::find(kStuck.begin(), kStuck.end(), reason) != kStuck.end())
      state.phase = Phase::kEnded;
  } else if (const Json& conditions = Member(status, "conditions"); conditions.is_array()) {
    const auto scheduled = kube::FindBy(conditions, "type", "PodScheduled");
    if (scheduled && TextOf(conditions[*scheduled], "status") == "False")
      state.text = WithReason(conditions[*scheduled]);
  }
  return state;
}

}  // namespace

std::vector<std::string> InjectedPodArguments() {
  return {"get", "pods", StrCat("--selector=", kInjectedLabel, "=true"), "--output=json"};
}

Json ChoosePod(const Json& list, const TargetSpec& target) {
  const Json* best = nullptr;
  std::pair<bool, std::string> rank;
  for (const Json& pod : Member(list, "items")) {
    if (SidecarOf(Member(pod, "spec")).is_null()) continue;
    std::pair<bool, std::string> its{IsOf(pod, target),
                                     TextOf(Member(pod, "metadata"), "creationTimestamp")};
    if (best != nullptr && its <= rank) continue;
    best = &pod;
    rank = std::move(its);
  }
  return best == nullptr ? Json() : *best;
}

absl::StatusOr<Ordered> MakeViewerJob(const ViewerWishes& wishes, const Json& pod,
                                      const ProfileRequest* request) {
  if (pod.is_null() && wishes.image.empty()) {
    return absl::FailedPreconditionError(
        "no pod of this namespace has Strobe's sidecar, whose image and storage settings the "
        "viewer would take; name an image with --image and an identity with --service-account");
  }
  Ordered metadata = {{"name", wishes.name},
                      {"labels",
                       {{kViewerLabel, wishes.name},
                        {"app.kubernetes.io/name", "strobe-viewer"},
                        {"app.kubernetes.io/managed-by", "kubectl-strobe"}}}};
  if (request != nullptr) {
    metadata["ownerReferences"] = {{{"apiVersion", kApiVersion},
                                    {"kind", "ProfileRequest"},
                                    {"name", request->name},
                                    {"uid", request->uid}}};
  }
  const auto deadline = std::chrono::duration_cast<std::chrono::seconds>(wishes.deadline).count();
  return Ordered{{"apiVersion", "batch/v1"},
                 {"kind", "Job"},
                 {"metadata", std::move(metadata)},
                 {"spec",
                  {{"backoffLimit", 0},
                   {"activeDeadlineSeconds", std::max<std::int64_t>(deadline, 1)},
                   {"ttlSecondsAfterFinished", 0},
                   {"template", Template(wishes, pod)}}}};
}

ViewerState StateOf(const Json& objects, const Json& events) {
  ViewerState state{ViewerState::Phase::kWaits, "", "its Job makes a pod"};
  bool exists = false;
  for (const Json& object : Member(objects, "items")) {
    if (TextOf(object, "kind") == "Pod") return PodState(object);
    exists = true;
    if (Member(Member(object, "spec"), "suspend") == true)
      state.text = "its Job is suspended, as a queue such as Kueue does it until there is room";
  }
  if (!exists) return {ViewerState::Phase::kEnded, "", "its Job was deleted"};
  for (const Json& event : Member(events, "items")) {
    if (TextOf(event, "reason") == "FailedCreate")
      return {ViewerState::Phase::kEnded, "", TextOf(event, "message")};
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

}  // namespace strobe::cluster
