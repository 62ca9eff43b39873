#include "operator/admission/inject.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"
#include "operator/admission/annotation_values.h"
#include "operator/admission/sidecar_ports.h"
#include "operator/admission/sidecar_spec.h"
#include "operator/admission/trainer_variables.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::Find;
using kube::FindBy;
using kube::Member;
using kube::TextOf;

// The API server has not checked the pod yet, and passes on 4 KiB of warnings at most.
constexpr std::size_t kMaxContainers = 1000, kMaxWarnings = 16;

// Returns the indices of the trainers: the containers that an annotation names, otherwise those
// that ChooseTrainers selects.
std::vector<std::size_t> Trainers(const Json& pod, std::vector<std::string>& warnings) {
  const Json& containers = kube::Member(kube::Member(pod, "spec"), "containers");
  std::vector<std::size_t> chosen;
  const std::string named = kube::TextOf(kube::Member(kube::Member(pod, "metadata"), "annotations"),
                                         kube::kContainersAnnotation);
  if (!named.empty()) {
    std::map<std::string, std::size_t> index_of;
    for (std::size_t i = 0; i < containers.size(); ++i)
      index_of.emplace(kube::TextOf(containers[i], "name"), i);
    std::set<std::string> seen;
    for (const std::string& name : Split(named, ',')) {
      if (!seen.insert(name).second) continue;
      const auto found = index_of.find(name);
      if (found != index_of.end())
        chosen.push_back(found->second);
      else if (warnings.size() < kMaxWarnings)
        warnings.push_back(StrCat("strobe.dev/containers: there is no container \"",
                                  CutUtf8(name, 63), "\"; the name is ignored"));
    }
    if (!chosen.empty()) return chosen;
  }
  std::vector<capture::ContainerDevices> devices;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (kube::TextOf(containers[i], "name") == kube::kSidecarContainer) continue;
    devices.push_back(job::DevicesOf(containers[i]));
    indices.push_back(i);
  }
  for (const std::size_t index : capture::ChooseTrainers(devices)) chosen.push_back(indices[index]);
  return chosen;
}

// Collects the patch's operations.
class Patch {
 public:
  explicit Patch(const Json& pod) : pod_(pod) {}

  // Appends to the list at `path`. Creates the list if the pod does not have it.
  void Append(const std::string& path, Json value) {
    EnsureContainer(path, Json::array());
    Add(path + "/-", std::move(value));
  }
  void Set(const std::string& path, const std::string& key, Json value) {
    EnsureContainer(path, Json::object());
    std::string escaped;
    for (const char c : key) {
      if (c == '~')
        escaped += "~0";
      else if (c == '/')
        escaped += "~1";
      else
        escaped += c;
    }
    Add(StrCat(path, "/", escaped), std::move(value));
  }
  Json Take() { return std::move(operations_); }

 private:
  void Add(const std::string& path, Json value) {
    operations_.push_back({{"op", "add"}, {"path", path}, {"value", std::move(value)}});
  }
  void EnsureContainer(const std::string& path, Json empty) {
    const Json::json_pointer pointer(path);
    if (pod_.contains(pointer) && !pod_[pointer].is_null()) return;
    if (made_.insert(path).second) Add(path, std::move(empty));
  }

  const Json& pod_;
  Json operations_ = Json::array();
  std::set<std::string> made_;
};

void AddVolumes(const Json& spec, const SidecarVolumes& names, const std::string& agent_memory,
                bool tls, Patch& patch) {
  const Json& volumes = kube::Member(spec, "volumes");
  // In memory, because a slow disk would delay the trainer's threads. The file system enforces its
  // size, so exceeding it does not evict the pod.
  if (!kube::Find(volumes, names.shared)) {
    patch.Append("/spec/volumes",
                 {{"name", names.shared},
                  {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", agent_memory}}}});
  }
  // On disk and without a sizeLimit, because exceeding it would evict the trainer. The sidecar
  // observes --spool-size instead.
  if (!kube::Find(volumes, names.spool))
    patch.Append("/spec/volumes", {{"name", names.spool}, {"emptyDir", Json::object()}});
  if (tls && !kube::Find(volumes, names.token)) {
    patch.Append("/spec/volumes", {{"name", names.token},
                                   {"projected",
                                    {{"sources",
                                      {{{"serviceAccountToken",
                                         {{"audience", kube::kTokenAudience},
                                          {"expirationSeconds", 3600},
                                          {"path", "token"}}}}}}}}});
  }
}

template <typename Condition>
bool AnyMount(const Json& container, const Condition& holds) {
  const Json& mounts = kube::Member(container, "volumeMounts");
  return mounts.is_array() && std::any_of(mounts.begin(), mounts.end(), holds);
}

// True if the container mounts something else where the shared volume belongs.
bool MountsInstead(const Json& container, const std::string& volume) {
  return AnyMount(container, [&](const Json& mount) {
    return WithoutSlashes(kube::TextOf(mount, "mountPath")) == kSharedPath &&
           kube::TextOf(mount, "name") != volume;
  });
}

bool HasVolume(const Json& container, const std::string& volume) {
  return AnyMount(container,
                  [&](const Json& mount) { return kube::TextOf(mount, "name") == volume; });
}

void AddToTrainer(const Json& container, std::size_t index, const TrainerOptions& options,
                  const std::string& volume, Patch& patch, std::vector<std::string>& warnings) {
  const std::string path = StrCat("/spec/containers/", index);
  const std::string name = kube::TextOf(container, "name");
  const bool mounts_instead = MountsInstead(container, volume);
  for (VariableChange& change : ChangeVariables(container, options, mounts_instead, warnings)) {
    if (change.at)
      patch.Set(StrCat(path, "/env/", *change.at), "value", std::move(change.value));
    else
      patch.Append(path + "/env", {{"name", change.name}, {"value", change.value}});
  }
  if (mounts_instead) {
    warnings.push_back(StrCat("container ", name, " mounts something at ", kSharedPath,
                              " itself; annotations and GPU activity are not recorded"));
  } else if (!HasVolume(container, volume)) {
    patch.Append(path + "/volumeMounts", {{"name", volume}, {"mountPath", kSharedPath}});
  }
}

// The API server sends only well-formed pods. Others are skipped, so that the patch always applies.
bool IsWellFormed(const Json& pod) {
  const auto fits = [](const Json& value, bool array) {
    return value.is_null() || (array ? value.is_array() : value.is_object());
  };
  const Json& spec = kube::Member(pod, "spec");
  const Json& metadata = kube::Member(pod, "metadata");
  const Json& containers = kube::Member(spec, "containers");
  if (!metadata.is_object() || !fits(kube::Member(metadata, "labels"), /*array=*/false) ||
      !fits(kube::Member(metadata, "annotations"), /*array=*/false) ||
      !fits(kube::Member(spec, "volumes"), /*array=*/true) ||
      !fits(kube::Member(spec, "initContainers"), /*array=*/true) ||
      !fits(kube::Member(spec, "imagePullSecrets"), /*array=*/true) || !containers.is_array() ||
      containers.empty()) {
    return false;
  }
  return std::all_of(containers.begin(), containers.end(), [&](const Json& container) {
    return container.is_object() && fits(kube::Member(container, "env"), /*array=*/true) &&
           fits(kube::Member(container, "volumeMounts"), /*array=*/true);
  });
}

// Appends ports to an annotation that is a comma list. What the user has set stays.
void AddPorts(const Json& annotations, const char* name, const std::vector<int>& ports,
              Patch& patch) {
  const std::string before = kube::TextOf(annotations, name);
  std::string list = before;
  const std::vector<std::string> there = Split(before, ',');
  for (const int port : ports) {
    if (std::find(there.begin(), there.end(), StrCat(port)) == there.end())
      list += StrCat(list.empty() ? "" : ",", port);
  }
  if (list != before) patch.Set("/metadata/annotations", name, list);
}

// Excludes our ports from Istio's proxy. Our connections have their own TLS, which the proxy would
// refuse or terminate, and they begin before the proxy runs. Without Istio nobody reads these
// annotations. Pods on the host's network have no proxy.
void BypassMesh(const Json& pod, const InjectionSettings& settings, const SidecarSpec& sidecar,
                Patch& patch) {
  if (UsesHostNetwork(kube::Member(pod, "spec"))) return;
  const Json& annotations = kube::Member(kube::Member(pod, "metadata"), "annotations");
  AddPorts(annotations, "traffic.sidecar.istio.io/excludeInboundPorts", sidecar.served_ports,
           patch);
  const std::size_t colon = settings.enrollment.rfind(':');
  if (colon == std::string::npos) return;
  AddPorts(annotations, "traffic.sidecar.istio.io/excludeOutboundPorts",
           {std::atoi(settings.enrollment.c_str() + colon + 1)}, patch);
}

// Returns why this pod's sidecar would not start: another pod of the namespace waits in vain for a
// sidecar with the same image. Empty if none does.
std::string WhyStuck(const InjectionSettings& settings, const NamespaceLimits& limits) {
  for (const NamespaceLimits::StuckPod& pod : limits.stuck) {
    if (pod.image == settings.image)
      return StrCat("pod ", pod.name, " of this namespace waits for its sidecar (", pod.reason,
                    "); delete that pod when ", settings.image, " can be started");
  }
  return "";
}

// What the annotation asks for; empty if it is not valid.
std::string CollectivesAsked(const Json& annotations) {
  const std::string asked = kube::TextOf(annotations, kube::kCollectivesAnnotation);
  return IsCollectives(asked) ? asked : "";
}

// Writes on the pod what was injected. Once, because the pod stays as it was admitted.
void Describe(const Json& pod, const InjectionSettings& settings, const SidecarSpec& made,
              const std::vector<std::string>& trainers, const std::string& hash, Patch& patch) {
  const Json& annotations = kube::Member(kube::Member(pod, "metadata"), "annotations");
  if (!kube::TextOf(annotations, kube::kStatusAnnotation).empty()) return;
  Json status = {{"version", kVersion}, {"hash", hash}, {"containers", trainers}};
  if (!made.host_ports.empty()) status["ports"] = made.host_ports;
  patch.Set("/metadata/annotations", kube::kStatusAnnotation, JsonText(status));
  if (!settings.viewer_image.empty() &&
      kube::TextOf(annotations, kube::kViewerImageAnnotation).empty())
    patch.Set("/metadata/annotations", kube::kViewerImageAnnotation, settings.viewer_image);
  BypassMesh(pod, settings, made, patch);
}

}  // namespace

std::string WhyNotInjected(const Json& pod) {
  if (!IsWellFormed(pod)) return "it has no containers or is not a valid pod";
  const Json& metadata = kube::Member(pod, "metadata");
  const Json& spec = kube::Member(pod, "spec");
  if (kube::TextOf(kube::Member(metadata, "labels"), kube::kInjectLabel) == "false")
    return "its label is strobe.dev/inject=false";
  if (kube::Member(spec, "containers").size() > kMaxContainers)
    return StrCat("it has more than ", kMaxContainers, " containers");
  if (std::string never = job::WhyNeverInjected(pod); !never.empty()) return never;
  const bool ours =
      !kube::TextOf(kube::Member(metadata, "annotations"), kube::kStatusAnnotation).empty();
  if (!ours && !job::SidecarOf(spec).is_null()) return "it has a strobe-sidecar of its own";
  return "";
}

Injection Inject(const Json& pod, const InjectionSettings& settings,
                 const InjectionContext& context) {
  Injection injection;
  injection.skipped = WhyNotInjected(pod);
  if (!injection.skipped.empty()) return injection;
  const Json& spec = kube::Member(pod, "spec");
  Patch patch(pod);
  const SidecarVolumes volumes = VolumesFor(pod);
  const Json& containers = kube::Member(spec, "containers");
  const std::vector<std::size_t> trainers = Trainers(pod, injection.warnings);
  std::vector<std::string> names;
  for (const std::size_t index : trainers) names.push_back(kube::TextOf(containers[index], "name"));
  std::vector<std::string> sidecar_warnings;
  SidecarSpec made = MakeSidecar(pod, settings, context, volumes, names, sidecar_warnings);
  const Json& inits = kube::Member(spec, "initContainers");
  const std::optional<std::size_t> native = kube::Find(inits, kube::kSidecarContainer);
  const Json& there = job::SidecarOf(spec);
  // Native sidecars only: nothing waits for an ordinary container.
  if (made.native && made.cannot.empty()) made.cannot = WhyStuck(settings, context.limits);
  // A sidecar that is already in the pod was accepted before.
  if (there.is_null() && !made.cannot.empty()) {
    injection.skipped = made.cannot;
    injection.warnings = {StrCat("the pod is not injected and cannot be profiled: ", made.cannot)};
    // A warning is lost when a controller creates the pod, so the reason is also an annotation,
    // which captures of the pod show.
    const std::string why = CutUtf8(made.cannot, kube::kMaxNotInjectedBytes);
    if (kube::TextOf(kube::Member(kube::Member(pod, "metadata"), "annotations"),
                     kube::kNotInjectedAnnotation) != why)
      patch.Set("/metadata/annotations", kube::kNotInjectedAnnotation, why);
    injection.patch = patch.Take();
    return injection;
  }
  AddVolumes(spec, volumes, made.agent_memory, !settings.enrollment.empty(), patch);
  Sha256 hash;
  hash.Update(JsonText(made.container));
  for (Json& volume : made.volumes) {
    const std::string name = kube::TextOf(volume, "name");
    // A sidecar from before the settings changed does not need the volume.
    if (!kube::Find(kube::Member(spec, "volumes"), name) &&
        (there.is_null() || HasVolume(there, name)))
      patch.Append("/spec/volumes", std::move(volume));
  }
  if (native) {
    // Some webhooks do not know this field and drop it.
    if (kube::TextOf(inits[*native], "restartPolicy") != "Always")
      patch.Set(StrCat("/spec/initContainers/", *native), "restartPolicy", "Always");
  } else if (there.is_null()) {
    // Appended last, so that other webhooks' indices stay valid, and because some controllers take
    // a pod's first container for their own.
    patch.Append(made.native ? "/spec/initContainers" : "/spec/containers",
                 std::move(made.container));
    for (const std::string& secret : settings.pull_secrets) {
      if (!kube::Find(kube::Member(spec, "imagePullSecrets"), secret))
        patch.Append("/spec/imagePullSecrets", {{"name", secret}});
    }
    injection.warnings.insert(injection.warnings.end(), sidecar_warnings.begin(),
                              sidecar_warnings.end());
  }
  const Json& annotations = kube::Member(kube::Member(pod, "metadata"), "annotations");
  const TrainerOptions options{
      .alone = trainers.size() == 1,
      .python = kube::TextOf(annotations, kube::kPythonAnnotation) == "true",
      .kineto = kube::TextOf(annotations, kube::kKinetoAnnotation) == "true",
      .host_network = UsesHostNetwork(spec),
      .ports_to_close = made.ports_to_close,
      .disabled = made.disabled,
      .collectives = CollectivesAsked(annotations)};
  for (const std::size_t index : trainers)
    AddToTrainer(containers[index], index, options, volumes.shared, patch, injection.warnings);
  const Json& metadata = kube::Member(pod, "metadata");
  if (kube::TextOf(kube::Member(metadata, "labels"), kube::kInjectedLabel).empty())
    patch.Set("/metadata/labels", kube::kInjectedLabel, "true");
  Describe(pod, settings, made, names, hash.Hex().substr(0, 16), patch);
  injection.patch = patch.Take();
  return injection;
}

std::string InjectionDamage(const Json& pod) {
  if (!WhyNotInjected(pod).empty()) return "";
  const Json& spec = kube::Member(pod, "spec");
  const Json& sidecar = job::SidecarOf(spec);
  if (sidecar.is_null()) {
    const Json& annotations = kube::Member(kube::Member(pod, "metadata"), "annotations");
    return kube::TextOf(annotations, kube::kNotInjectedAnnotation).empty() ? "lost" : "";
  }
  const bool native =
      kube::Find(kube::Member(spec, "initContainers"), kube::kSidecarContainer).has_value();
  if (native && kube::TextOf(sidecar, "restartPolicy") != "Always")
    return "modified: restartPolicy is gone";
  if (!UsesHostNetwork(spec) && !kube::Find(kube::Member(sidecar, "ports"), kube::kSidecarPort))
    return "modified: its port is gone";
  const Json& mounts = kube::Member(sidecar, "volumeMounts");
  for (const char* path : {kSharedPath, kSpoolPath}) {
    const std::optional<std::size_t> mount = kube::FindBy(mounts, "mountPath", path);
    if (!mount || !kube::Find(kube::Member(spec, "volumes"), kube::TextOf(mounts[*mount], "name")))
      return StrCat("modified: the volume at ", path, " is gone");
  }
  return "";
}

}  // namespace strobe::admission
