#include "operator/admission/sidecar_spec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"
#include "operator/admission/annotation_values.h"
#include "operator/admission/pod_annotations.h"
#include "operator/admission/sidecar_ports.h"
#include "operator/admission/sidecar_resources.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

// A Secret or ConfigMap that does not exist must not keep the pod from starting, hence `optional`.
// The sidecar reports what is missing when it needs it.
Json VolumeFor(const std::string& name, const InjectedFile& file) {
  const Json items = {{{"key", file.key}, {"path", file.key}}};
  if (!file.secret.empty()) {
    return {{"name", name},
            {"secret", {{"secretName", file.secret}, {"optional", true}, {"items", items}}}};
  }
  return {{"name", name},
          {"configMap", {{"name", file.config_map}, {"optional", true}, {"items", items}}}};
}

using kube::ElementsOf;
using kube::Find;
using kube::FindBy;
using kube::IsSome;

// Created by the sidecar when the agent's files are in place.
constexpr char kStartedFile[] = "/var/lib/strobe/started";
constexpr char kProgram[] = "/opt/strobe/bin/strobe-sidecar";
constexpr char kFlightRecorderDevices[] = "flight-recorder-devices";

// In seconds: how long Kubernetes waits for a pod to end if the pod does not say it, what the
// sidecar takes to end after --grace, and the range of --grace, which sidecar/main/flags.cc limits.
constexpr std::int64_t kDefaultTermination = 30, kTimeToEnd = 5, kMinGrace = 1, kMaxGrace = 3600;

// Paths where a logdir volume cannot be mounted in the sidecar, because the sidecar, its image or
// the kubelet uses them.
constexpr std::array<std::string_view, 14> kTakenPaths = {
    kSharedPath, kSpoolPath, "/var/run", "/run", "/opt/strobe", "/proc", "/sys",
    "/dev",      "/etc",     "/usr",     "/lib", "/lib64",      "/bin",  "/sbin"};

// The pod's annotation takes precedence over the namespace's policies, and these over the settings.
Json SecurityContext(const InjectionSettings& settings, const NamespaceLimits& limits,
                     PodAnnotations& annotations) {
  const std::string user = annotations.Get(
      "user", "", IsUser, "UID or UID:GID of a user that is not root, such as 1000");
  if (user.empty() && !limits.users_differ.empty())
    annotations.Warn(StrCat(limits.users_differ, "; the sidecar runs as the chart's user"));
  Json context = {{"allowPrivilegeEscalation", false},
                  {"capabilities", {{"drop", {"ALL"}}}},
                  {"readOnlyRootFilesystem", true},
                  {"runAsNonRoot", true},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (!user.empty()) {
    const std::vector<std::string> ids = Split(user, ':');
    context["runAsUser"] = std::stoll(ids.front());
    context["runAsGroup"] = std::stoll(ids.back());
  } else if (limits.sidecar_user) {
    context["runAsUser"] = limits.sidecar_user->user;
    context["runAsGroup"] = limits.sidecar_user->group;
  } else if (settings.user) {
    context["runAsUser"] = *settings.user;
    context["runAsGroup"] = *settings.user;
  }
  return context;
}

// True if no taken path is equal to, below or above `path`.
bool IsFreePath(const std::string& path) {
  return std::none_of(kTakenPaths.begin(), kTakenPaths.end(), [&](std::string_view taken) {
    const std::string a = path + "/", b = StrCat(taken, "/");
    return a.starts_with(b) || b.starts_with(a);
  });
}

// Mounts one of the pod's volumes, such as NFS, as a logdir: "volume:/mount/path".
void AddLogdirVolume(const Json& spec, PodAnnotations& annotations, const SidecarVolumes& ours,
                     Json& mounts) {
  const std::string value = annotations.Get(
      "logdir-volume", "",
      [&](const std::string& text) {
        const std::size_t colon = text.find(":/");
        const std::string volume = text.substr(0, std::min(colon, text.size()));
        return colon != std::string::npos &&
               kube::Find(kube::Member(spec, "volumes"), volume).has_value() &&
               volume != ours.shared && volume != ours.spool && volume != ours.token;
      },
      "NAME:/PATH of one of the pod's volumes");
  if (value.empty()) return;
  const std::size_t colon = value.find(':');
  const std::string path = WithoutSlashes(value.substr(colon + 1));
  const std::vector<std::string> parts = Split(path, '/');
  if (path.empty() || path.find(':') != std::string::npos || path.size() > 1024 ||
      std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    return annotations.Ignore("logdir-volume", value, "has a path where nothing can be mounted");
  }
  if (!IsFreePath(path))
    return annotations.Ignore("logdir-volume", value, "has a path that the sidecar uses itself");
  mounts.push_back({{"name", value.substr(0, colon)}, {"mountPath", path}});
}

// Where libtpu serves the metrics of the program that uses it; see tpu/runtime_metrics.proto.
constexpr char kTpuMetrics[] = "--tpu-metrics=localhost:8431";

bool UsesTpus(const Json& spec) {
  const Json& containers = kube::ElementsOf(spec, "containers");
  return std::any_of(containers.begin(), containers.end(), [](const Json& container) {
    return kube::IsSome(kube::Member(kube::Member(kube::Member(container, "resources"), "limits"),
                                     "google.com/tpu"));
  });
}

bool IsTrue(const std::string& text) { return text == "true"; }

void AddKineto(bool host_network, PodAnnotations& annotations, Json& arguments) {
  const std::string most = annotations.Get("kineto-max-duration", "", IsKinetoDuration,
                                           "a duration from 1ms to 10m, such as 5s");
  if (annotations.Get("kineto-daemon", "", IsTrue, "\"true\"").empty()) return;
  arguments.push_back(StrCat("--kineto-daemon=", kKinetoPath));
  // Pods with the host's network would share the abstract name.
  if (host_network) arguments.push_back("--kineto-socket-files");
  if (!most.empty()) arguments.push_back(StrCat("--kineto-max-duration=", most));
}

void AddFlightRecorder(const NamespaceLimits& limits, PodAnnotations& annotations,
                       Json& arguments) {
  const std::string reach =
      annotations.Get("flight-recorder", "", IsLookBack, "a duration such as 10s, at most 10m");
  if (!reach.empty()) arguments.push_back(StrCat("--flight-recorder=", reach));
  const std::string devices = annotations.Get(kFlightRecorderDevices, "", IsTrue, "\"true\"");
  if (devices.empty()) return;
  if (reach.empty())
    return annotations.Ignore(kFlightRecorderDevices, devices, "needs strobe.dev/flight-recorder");
  if (!limits.flight_recorder_devices) {
    return annotations.Ignore(kFlightRecorderDevices, devices,
                              "needs a ProfilePolicy of the namespace with "
                              "sidecar.flightRecorderDevices: true; ask an administrator for it");
  }
  arguments.push_back("--flight-recorder-devices");
}

void AddOptions(bool host_network, int compat_port, const NamespaceLimits& limits,
                PodAnnotations& annotations, Json& arguments) {
  const std::string rate = annotations.Get("upload-rate", "", IsUploadRate,
                                           "bytes per second such as 100MB, at least 1MB");
  if (!rate.empty()) arguments.push_back(StrCat("--upload-rate=", rate));
  AddFlightRecorder(limits, annotations, arguments);
  if (!annotations.Get("host-tracing-on-old-servers", "", IsTrue, "\"true\"").empty())
    arguments.push_back("--host-tracing-on-old-servers");
  if (!annotations.Get("gpu-tracing-by-servers", "", IsTrue, "\"true\"").empty())
    arguments.push_back("--gpu-tracing-by-servers");
  if (!annotations.Get("allow-stalls", "", IsTrue, "\"true\"").empty())
    arguments.push_back("--allow-stalls");
  // Only the trainer's variables depend on it; a wrong value is told here, once.
  annotations.Get("collectives", "", IsCollectives, "\"calls\" or \"times\"");
  AddKineto(host_network, annotations, arguments);
  // Stock clients present no certificate, so only clients within the pod may connect.
  if (compat_port != 0) arguments.push_back(StrCat("--compat-listen=127.0.0.1:", compat_port));
}

// The seconds that a capture has to finish once the sidecar is to end. The pod's local disk, and
// with it a trace that is not uploaded by then, is gone when the pod has ended. An ordinary
// container has as long as a native sidecar, but from when the trainer is asked to end as well.
std::int64_t GraceSeconds(const Json& spec) {
  const Json& told = kube::Member(spec, "terminationGracePeriodSeconds");
  const std::int64_t termination =
      told.is_number_integer() ? told.get<std::int64_t>() : kDefaultTermination;
  return std::clamp(termination, kMinGrace + kTimeToEnd, kMaxGrace + kTimeToEnd) - kTimeToEnd;
}

std::string FreeName(const Json& volumes, const std::string& name) {
  std::set<std::string> taken;
  for (const Json& volume : volumes) taken.insert(kube::TextOf(volume, "name"));
  std::string free = name;
  for (int i = 2; taken.contains(free); ++i) free = StrCat(name, "-", i);
  return free;
}

}  // namespace

std::vector<Json> AddDefaults(const InjectionSettings& settings, const SidecarVolumes& names,
                              Json& environment, Json& mounts) {
  std::vector<Json> added;
  const auto add = [&](const InjectedFile& file, const std::string& name, const char* path,
                       const char* variable) {
    if (file.secret.empty() && file.config_map.empty()) return;
    added.push_back(VolumeFor(name, file));
    mounts.push_back({{"name", name}, {"mountPath", path}, {"readOnly", true}});
    environment.push_back({{"name", variable}, {"value", StrCat(path, "/", file.key)}});
  };
  add(settings.storage_config, names.storage_config, kStorageConfigPath, "STROBE_STORAGE_CONFIG");
  add(settings.storage_ca, names.storage_ca, kStorageCaPath, "STROBE_STORAGE_CA_BUNDLE");
  for (const Json& variable : settings.environment) environment.push_back(variable);
  return added;
}

void RequestDisk(const InjectionSettings& settings, Json& resources) {
  constexpr char kDisk[] = "ephemeral-storage";
  const std::string& request = settings.ephemeral_storage;
  if (request.empty()) return;
  resources["requests"][kDisk] = request;
  const std::string limit = kube::TextOf(kube::Member(resources, "limits"), kDisk);
  if (!limit.empty() && ParseQuantity(limit).value_or(0) < ParseQuantity(request).value_or(0))
    resources["limits"][kDisk] = request;
}

std::string WithoutSlashes(const std::string& path) {
  std::string clean;
  for (const std::string& part : Split(path, '/')) {
    if (!part.empty() && part != ".") clean += "/" + part;
  }
  return clean;
}

SidecarVolumes VolumesFor(const Json& pod) {
  const Json& spec = kube::Member(pod, "spec");
  const Json& volumes = kube::Member(spec, "volumes");
  const Json& mounts = kube::Member(job::SidecarOf(spec), "volumeMounts");
  // True for a pod that was injected before; another webhook may have removed the sidecar since.
  const bool ours = !kube::TextOf(kube::Member(kube::Member(pod, "metadata"), "annotations"),
                                  kube::kStatusAnnotation)
                         .empty();
  const auto name = [&](const char* path, const std::string& otherwise) {
    if (const std::optional<std::size_t> mount = kube::FindBy(mounts, "mountPath", path))
      return kube::TextOf(mounts[*mount], "name");
    const std::optional<std::size_t> there = kube::Find(volumes, otherwise);
    if (!there || ours) return otherwise;
    return FreeName(volumes, otherwise);
  };
  return {.shared = name(kSharedPath, "strobe"),
          .spool = name(kSpoolPath, "strobe-spool"),
          .token = name(kTokenPath, "strobe-token"),
          .storage_config = name(kStorageConfigPath, "strobe-storage-config"),
          .storage_ca = name(kStorageCaPath, "strobe-storage-ca")};
}

// Succeeds when the agent's files are in place. The trainer starts only after that, so the probe
// must not wait for the trainer. It is a command, not a request, because a request needs a fixed
// port, and because meshes rewrite requests to go through a proxy that starts later.
Json StartupProbe() {
  return {{"exec", {{"command", {kProgram, "--is-started", kStartedFile}}}},
          {"periodSeconds", 1},
          {"timeoutSeconds", 10},
          {"failureThreshold", 60}};
}

// Whether the sidecar is a native one. A pod that may complete needs that: an ordinary container
// does not end, so the pod would never complete.
bool IsNative(const Json& spec, const InjectionSettings& settings, PodAnnotations& annotations) {
  const std::string value = annotations.Get(
      "injection-mode", "",
      [](const std::string& text) { return text == "native" || text == "container"; },
      "native or container");
  const bool completes = kube::TextOf(spec, "restartPolicy") != "Always";
  if (value == "container" && completes)
    annotations.Ignore("injection-mode", value,
                       "needs restartPolicy: Always, or the pod never completes");
  if (completes) return true;
  return value.empty() ? settings.mode == InjectionMode::kNative : value == "native";
}

// True if the pod asks the cluster's DNS. On the host's network ClusterFirst means the node's DNS
// (getPodDNSType in pkg/kubelet/network/dns/dns.go of Kubernetes 1.34).
bool ResolvesServices(const Json& spec) {
  const std::string policy = kube::TextOf(spec, "dnsPolicy");
  if (policy == "ClusterFirstWithHostNet") return true;
  return (policy.empty() || policy == "ClusterFirst") && !UsesHostNetwork(spec);
}

Json Arguments(const Json& spec, const InjectionSettings& settings, const SidecarPorts& ports,
               const NamespaceLimits& limits, const std::string& spool_size,
               PodAnnotations& annotations) {
  std::vector<std::string> captures;
  for (const int port : ports.captures) captures.push_back(StrCat(port));
  Json arguments = {StrCat("--listen=[::]:", Join(captures, ","))};
  if (ports.metrics != 0) arguments.push_back(StrCat("--http-listen=[::]:", ports.metrics));
  for (const std::string& argument :
       {StrCat("--framework=", ports.framework), StrCat("--install-dir=", kSharedPath),
        StrCat("--agent-dir=", kSharedPath, "/agent"), StrCat("--spool-dir=", kSpoolPath, "/spool"),
        StrCat("--spool-size=", spool_size), StrCat("--started-file=", kStartedFile),
        StrCat("--grace=", GraceSeconds(spec)), StrCat("--log-level=", settings.log_level)})
    arguments.push_back(argument);
  AddOptions(UsesHostNetwork(spec), ports.compat, limits, annotations, arguments);
  return arguments;
}

SidecarSpec MakeSidecar(const Json& pod, const InjectionSettings& settings,
                        const InjectionContext& context, const SidecarVolumes& volumes,
                        const std::vector<std::string>& trainers,
                        std::vector<std::string>& warnings) {
  const Json& spec = kube::Member(pod, "spec");
  PodAnnotations annotations(pod, warnings);
  SidecarSpec made;
  made.native = IsNative(spec, settings, annotations);
  SidecarResources resources =
      ChooseResources(spec, settings, context.limits, annotations, warnings);
  if (!resources.cannot.empty()) {
    made.cannot = std::move(resources.cannot);
    return made;
  }
  const std::string framework_ports = annotations.Get(
      "framework-port", StrCat(settings.framework_port), IsPorts, "a port, or several with commas");
  const SidecarPorts ports =
      ChoosePorts(spec, settings, framework_ports, context.seed, annotations);
  if (ports.captures.size() > 1)
    made.host_ports = ports.captures;
  else
    made.served_ports = ports.captures;
  if (ports.metrics != 0) made.served_ports.push_back(ports.metrics);
  Json arguments =
      Arguments(spec, settings, ports, context.limits, resources.spool_size, annotations);
  // With several trainers, programs are distinguished by their environment.
  if (trainers.size() > 1) arguments.push_back(StrCat("--containers=", Join(trainers, ",")));
  if (UsesTpus(spec)) arguments.push_back(kTpuMetrics);
  Json environment = {
      {{"name", "POD_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}};
  Json mounts = {{{"name", volumes.shared}, {"mountPath", kSharedPath}},
                 {{"name", volumes.spool}, {"mountPath", kSpoolPath}}};
  if (settings.enrollment.empty()) {
    arguments.push_back("--insecure-plaintext");
  } else {
    arguments.push_back(StrCat("--enroll=", settings.enrollment));
    if (!context.enrollment_address.empty() && !ResolvesServices(spec))
      arguments.push_back(StrCat("--enroll-at=", context.enrollment_address));
    arguments.push_back(StrCat("--token-file=", kTokenPath, "/token"));
    arguments.push_back(StrCat("--state-dir=", kSpoolPath));
    environment.push_back({{"name", "STROBE_ROOTS"}, {"value", context.roots}});
    mounts.push_back({{"name", volumes.token}, {"mountPath", kTokenPath}, {"readOnly", true}});
  }
  AddLogdirVolume(spec, annotations, volumes, mounts);
  const std::string secret = annotations.Get(
      "storage-secret", settings.storage_secret,
      [](const std::string& name) { return IsSafeName(name); }, "the name of a Secret");

  made.volumes = AddDefaults(settings, volumes, environment, mounts);
  // A request that the namespace's limits already determined is kept.
  if (kube::Member(kube::Member(resources.resources, "requests"), "ephemeral-storage").is_null())
    RequestDisk(settings, resources.resources);
  made.agent_memory = annotations.Get("agent-memory", settings.agent_memory, IsAgentMemory,
                                      "at least 32Mi, such as 512Mi");
  if (!annotations.Get("close-profiler-port", "", IsTrue, "\"true\"").empty())
    made.ports_to_close = framework_ports;
  made.disabled = annotations.Get("disable", Join(settings.disabled, ","), IsTrainerChangeList,
                                  "\"none\" or names such as keep-cupti,server");
  if (made.disabled == "none") made.disabled.clear();
  made.container = {{"name", kube::kSidecarContainer},
                    {"image", settings.image},
                    {"args", std::move(arguments)},
                    {"env", std::move(environment)},
                    {"ports", DeclaredPorts(ports)},
                    {"resources", std::move(resources.resources)},
                    {"securityContext", SecurityContext(settings, context.limits, annotations)},
                    {"volumeMounts", std::move(mounts)}};
  if (made.native) {
    made.container["restartPolicy"] = "Always";
    made.container["startupProbe"] = StartupProbe();
  }
  if (!settings.pull_policy.empty()) made.container["imagePullPolicy"] = settings.pull_policy;
  if (!secret.empty()) {
    // A missing Secret must not keep the pod from starting. The sidecar reports what is missing.
    made.container["envFrom"] = {{{"secretRef", {{"name", secret}, {"optional", true}}}}};
  }
  return made;
}

}  // namespace strobe::admission
