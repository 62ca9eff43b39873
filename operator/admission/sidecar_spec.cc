#include "operator/admission/sidecar_spec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "common/base/name_rules.h"
#include "common/base/quantity.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "operator/admission/annotation_values.h"
#include "operator/admission/sidecar_defaults.h"
#include "operator/core/names.h"
#include "operator/objects/json_members.h"
#include "operator/objects/pod_json.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

using kube::Find;
using kube::FindBy;
using kube::Member;
using kube::TextOf;

constexpr int kWorkerPort = 9470;

// Paths where a logdir volume cannot be mounted in the sidecar, because the sidecar, its image or
// the kubelet uses them.
constexpr std::array<std::string_view, 14> kTakenPaths = {
    kSharedPath, kSpoolPath, "/var/run", "/run", "/opt/strobe", "/proc", "/sys",
    "/dev",      "/etc",     "/usr",     "/lib", "/lib64",      "/bin",  "/sbin"};

// The valid values of the pod's annotations. Collects warnings about invalid ones.
class Wishes {
 public:
  Wishes(const Json& pod, std::vector<std::string>& warnings)
      : annotations_(Member(Member(pod, "metadata"), "annotations")), warnings_(warnings) {}

  template <typename Check>
  std::string Get(const char* name, const std::string& otherwise, const Check& check,
                  const char* should) {
    const std::string value = TextOf(annotations_, StrCat("strobe.dev/", name));
    if (value.empty() || check(value)) return value.empty() ? otherwise : value;
    Ignore(name, value, StrCat("must be ", should));
    return otherwise;
  }
  void Ignore(const char* name, const std::string& value, const std::string& why) {
    warnings_.push_back(
        StrCat("strobe.dev/", name, " ", why, "; \"", CutUtf8(value, 40), "\" is ignored"));
  }

 private:
  const Json& annotations_;
  std::vector<std::string>& warnings_;
};

// The ports in use in one pod, whose containers share an address.
class Ports {
 public:
  // Starts with the ports that the pod's own containers declare.
  explicit Ports(const Json& spec) {
    for (const char* list : {"containers", "initContainers"}) {
      const Json& containers = Member(spec, list);
      for (std::size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
        if (TextOf(containers[i], "name") == kSidecarContainer) continue;
        const Json& ports = Member(containers[i], "ports");
        for (std::size_t k = 0; ports.is_array() && k < ports.size(); ++k) {
          const Json& port = Member(ports[k], "containerPort");
          if (port.is_number_integer()) taken_.insert(port.get<int>());
        }
      }
    }
  }
  bool Take(int port) { return taken_.insert(port).second; }
  int TakeFrom(int first) {
    while (!Take(first)) ++first;
    return first;
  }

 private:
  std::set<int> taken_;
};

// Returns the port that an annotation asks for if it is free, otherwise the next free port after
// `otherwise`.
int PortFor(Wishes& wishes, const char* name, int otherwise, Ports& ports) {
  const std::string wish = wishes.Get(name, "", IsPort, "a port");
  if (wish.empty()) return ports.TakeFrom(otherwise);
  if (ports.Take(std::stoi(wish))) return std::stoi(wish);
  wishes.Ignore(name, wish, "is a port that something else in this pod uses");
  return ports.TakeFrom(otherwise);
}

Json SecurityContext(const InjectionSettings& settings, Wishes& wishes) {
  const std::string user =
      wishes.Get("user", "", IsUser, "UID or UID:GID of a user that is not root, such as 1000");
  Json context = {{"allowPrivilegeEscalation", false},
                  {"capabilities", {{"drop", {"ALL"}}}},
                  {"readOnlyRootFilesystem", true},
                  {"runAsNonRoot", true},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (!user.empty()) {
    const std::vector<std::string> ids = Split(user, ':');
    context["runAsUser"] = std::stoll(ids.front());
    context["runAsGroup"] = std::stoll(ids.back());
  } else if (settings.user) {
    context["runAsUser"] = *settings.user;
    context["runAsGroup"] = *settings.user;
  }
  return context;
}

bool SameQuantity(const Json& a, const Json& b) {
  const auto value = [](const Json& quantity) {
    return quantity.is_number()   ? std::optional<double>(quantity.get<double>())
           : quantity.is_string() ? ParseQuantity(quantity.get_ref<const std::string&>())
                                  : std::nullopt;
  };
  const std::optional<double> left = value(a), right = value(b);
  return left && right ? *left == *right : a == b;
}

// True if requests equal limits in all containers. The sidecar's must then be equal too, or the pod
// would lose its QoS class Guaranteed and with it its CPU pinning.
bool IsGuaranteed(const Json& spec) {
  for (const char* list : {"containers", "initContainers"}) {
    const Json& containers = Member(spec, list);
    for (std::size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
      if (TextOf(containers[i], "name") == kSidecarContainer) continue;
      const Json& resources = Member(containers[i], "resources");
      for (const char* kind : {"cpu", "memory"}) {
        const Json& limit = Member(Member(resources, "limits"), kind);
        const Json& request = Member(Member(resources, "requests"), kind);
        if (limit.is_null() || (!request.is_null() && !SameQuantity(request, limit))) return false;
      }
    }
  }
  return true;
}

Json Resources(const Json& spec, const InjectionSettings& settings, Wishes& wishes) {
  const std::string cpu = wishes.Get("cpu", settings.cpu, IsCpu, "at least 1m, such as 100m");
  const std::string memory =
      wishes.Get("memory", "", IsSidecarMemory, "at least 32Mi, such as 512Mi");
  // Pod-level resources bound the whole pod whatever its containers request, so container resources
  // could only exceed them.
  if (!Member(spec, "resources").empty()) return Json::object();
  const bool guaranteed = IsGuaranteed(spec);
  const std::string most = memory.empty() ? settings.memory_limit : memory;
  Json requests = {{"cpu", cpu},
                   {"memory", guaranteed || !memory.empty() ? most : settings.memory}};
  // There is no CPU limit unless it is required, because it would throttle the sidecar at the start
  // of a recording.
  Json limits = {{"memory", most}};
  if (guaranteed) limits["cpu"] = cpu;
  return {{"requests", std::move(requests)}, {"limits", std::move(limits)}};
}

// True if no taken path is equal to, below or above `path`.
bool IsFreePath(const std::string& path) {
  return std::none_of(kTakenPaths.begin(), kTakenPaths.end(), [&](std::string_view taken) {
    const std::string a = path + "/", b = StrCat(taken, "/");
    return a.starts_with(b) || b.starts_with(a);
  });
}

// Mounts one of the pod's volumes, such as NFS, as a logdir: "volume:/mount/path".
void AddLogdirVolume(const Json& spec, Wishes& wishes, const SidecarVolumes& ours, Json& mounts) {
  const std::string wish = wishes.Get(
      "logdir-volume", "",
      [&](const std::string& text) {
        const std::size_t colon = text.find(":/");
        const std::string volume = text.substr(0, std::min(colon, text.size()));
        return colon != std::string::npos && Find(Member(spec, "volumes"), volume).has_value() &&
               volume != ours.shared && volume != ours.spool && volume != ours.token;
      },
      "NAME:/PATH of one of the pod's volumes");
  if (wish.empty()) return;
  const std::size_t colon = wish.find(':');
  const std::string path = WithoutSlashes(wish.substr(colon + 1));
  const std::vector<std::string> parts = Split(path, '/');
  if (path.empty() || path.find(':') != std::string::npos || path.size() > 1024 ||
      std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    return wishes.Ignore("logdir-volume", wish, "has a path where nothing can be mounted");
  }
  if (!IsFreePath(path))
    return wishes.Ignore("logdir-volume", wish, "has a path that the sidecar uses itself");
  mounts.push_back({{"name", wish.substr(0, colon)}, {"mountPath", path}});
}

// Returns "localhost:9012,localhost:9013" for "9012,9013".
std::string FrameworkAddresses(const std::string& framework_ports, Ports& ports) {
  std::string addresses;
  for (const std::string& port : Split(framework_ports, ',')) {
    ports.Take(std::stoi(port));
    addresses += StrCat(addresses.empty() ? "" : ",", "localhost:", port);
  }
  return addresses;
}

bool IsTrue(const std::string& text) { return text == "true"; }

void AddKineto(bool host_network, Wishes& wishes, Json& arguments) {
  const std::string most = wishes.Get("kineto-max-duration", "", IsKinetoDuration,
                                      "a duration from 1ms to 10m, such as 5s");
  if (wishes.Get("kineto-daemon", "", IsTrue, "\"true\"").empty()) return;
  arguments.push_back(StrCat("--kineto-daemon=", kKinetoPath));
  // Pods with the host's network would share the abstract name.
  if (host_network) arguments.push_back("--kineto-socket-files");
  if (!most.empty()) arguments.push_back(StrCat("--kineto-max-duration=", most));
}

void AddOptions(bool host_network, Wishes& wishes, Ports& ports, Json& arguments) {
  const std::string rate =
      wishes.Get("upload-rate", "", IsUploadRate, "bytes per second such as 100MB, at least 1MB");
  if (!rate.empty()) arguments.push_back(StrCat("--upload-rate=", rate));
  const std::string flight =
      wishes.Get("flight-recorder", "", IsLookBack, "a duration such as 10s, at most 10m");
  if (!flight.empty()) arguments.push_back(StrCat("--flight-recorder=", flight));
  if (!wishes.Get("host-tracing-on-old-servers", "", IsTrue, "\"true\"").empty())
    arguments.push_back("--host-tracing-on-old-servers");
  AddKineto(host_network, wishes, arguments);
  const std::string compat = wishes.Get("compat-port", "", IsPort, "a port");
  if (compat.empty()) return;
  if (!ports.Take(std::stoi(compat)))
    return wishes.Ignore("compat-port", compat, "is a port that something else in this pod uses");
  // Stock clients present no certificate, so only clients within the pod may connect.
  arguments.push_back(StrCat("--compat-listen=127.0.0.1:", compat));
}

std::string FreeName(const Json& volumes, const std::string& name) {
  std::string free = name;
  for (int i = 2; Find(volumes, free); ++i) free = StrCat(name, "-", i);
  return free;
}

}  // namespace

bool UsesHostNetwork(const Json& spec) { return Member(spec, "hostNetwork") == Json(true); }

std::string WithoutSlashes(const std::string& path) {
  std::string clean;
  for (const std::string& part : Split(path, '/')) {
    if (!part.empty() && part != ".") clean += "/" + part;
  }
  return clean;
}

SidecarVolumes VolumesFor(const Json& pod) {
  const Json& spec = Member(pod, "spec");
  const Json& volumes = Member(spec, "volumes");
  const Json& inits = Member(spec, "initContainers");
  const std::optional<std::size_t> sidecar = Find(inits, kSidecarContainer);
  const Json& mounts = sidecar ? Member(inits[*sidecar], "volumeMounts") : Member(Json(), "");
  // True for a pod that was injected before; another webhook may have removed the sidecar since.
  const bool ours =
      !TextOf(Member(Member(pod, "metadata"), "annotations"), kStatusAnnotation).empty();
  const auto name = [&](const char* path, const std::string& otherwise) {
    if (const std::optional<std::size_t> mount = FindBy(mounts, "mountPath", path))
      return TextOf(mounts[*mount], "name");
    const std::optional<std::size_t> there = Find(volumes, otherwise);
    if (!there || ours) return otherwise;
    return FreeName(volumes, otherwise);
  };
  return {name(kSharedPath, "strobe"), name(kSpoolPath, "strobe-spool"),
          name(kTokenPath, "strobe-token"), name(kStorageConfigPath, "strobe-storage-config"),
          name(kStorageCaPath, "strobe-storage-ca")};
}

SidecarSpec MakeSidecar(const Json& pod, const InjectionSettings& settings,
                        const std::string& roots, const SidecarVolumes& volumes,
                        const std::vector<std::string>& trainers,
                        std::vector<std::string>& warnings) {
  const Json& spec = Member(pod, "spec");
  Wishes wishes(pod, warnings);
  Ports ports(spec);
  const std::string framework_ports = wishes.Get("framework-port", StrCat(settings.framework_port),
                                                 IsPorts, "a port, or several with commas");
  const std::string framework = FrameworkAddresses(framework_ports, ports);
  const int port = PortFor(wishes, "port", kWorkerPort, ports);
  const int metrics = PortFor(wishes, "metrics-port", settings.metrics_port, ports);
  Json arguments = {
      StrCat("--listen=0.0.0.0:", port),
      StrCat("--http-listen=0.0.0.0:", metrics),
      StrCat("--framework=", framework),
      StrCat("--install-dir=", kSharedPath),
      StrCat("--agent-dir=", kSharedPath, "/agent"),
      StrCat("--spool-dir=", kSpoolPath, "/spool"),
      StrCat("--spool-size=", ParseBytes(wishes.Get("spool-size", settings.spool_size, IsBytes,
                                                    "a quantity such as 2Gi"))
                                  .value_or(0)),
      StrCat("--log-level=", settings.log_level)};
  // With several trainers, programs are distinguished by their environment.
  if (trainers.size() > 1) arguments.push_back(StrCat("--containers=", Join(trainers, ",")));
  AddOptions(UsesHostNetwork(spec), wishes, ports, arguments);
  Json environment = {
      {{"name", "POD_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}};
  Json mounts = {{{"name", volumes.shared}, {"mountPath", kSharedPath}},
                 {{"name", volumes.spool}, {"mountPath", kSpoolPath}}};
  if (settings.enrollment.empty()) {
    arguments.push_back("--insecure-plaintext");
  } else {
    arguments.push_back(StrCat("--enroll=", settings.enrollment));
    arguments.push_back(StrCat("--token-file=", kTokenPath, "/token"));
    arguments.push_back(StrCat("--state-dir=", kSpoolPath));
    environment.push_back({{"name", "STROBE_ROOTS"}, {"value", roots}});
    mounts.push_back({{"name", volumes.token}, {"mountPath", kTokenPath}, {"readOnly", true}});
  }
  AddLogdirVolume(spec, wishes, volumes, mounts);
  const std::string secret = wishes.Get(
      "storage-secret", settings.storage_secret,
      [](const std::string& name) { return IsSafeName(name); }, "the name of a Secret");

  SidecarSpec made;
  made.volumes = AddDefaults(settings, volumes, environment, mounts);
  Json resources = Resources(spec, settings, wishes);
  RequestDisk(settings, resources);
  made.agent_memory = wishes.Get("agent-memory", settings.agent_memory, IsAgentMemory,
                                 "at least 32Mi, such as 512Mi");
  if (!wishes.Get("close-profiler-port", "", IsTrue, "\"true\"").empty())
    made.ports_to_close = framework_ports;
  made.container = {
      {"name", kSidecarContainer},
      {"image", settings.image},
      {"restartPolicy", "Always"},
      {"args", std::move(arguments)},
      {"env", std::move(environment)},
      {"ports",
       {{{"name", kSidecarPort}, {"containerPort", port}, {"protocol", "TCP"}},
        {{"name", "strobe-metrics"}, {"containerPort", metrics}, {"protocol", "TCP"}}}},
      {"resources", std::move(resources)},
      {"securityContext", SecurityContext(settings, wishes)},
      // Succeeds when the agent's files are in place. The trainer starts only after that, so the
      // probe must not wait for the trainer.
      {"startupProbe",
       {{"httpGet", {{"path", "/healthz"}, {"port", metrics}}},
        {"periodSeconds", 1},
        {"failureThreshold", 60}}},
      {"volumeMounts", std::move(mounts)}};
  if (!settings.pull_policy.empty()) made.container["imagePullPolicy"] = settings.pull_policy;
  if (!secret.empty()) {
    // A missing Secret must not keep the pod from starting. The sidecar reports what is missing.
    made.container["envFrom"] = {{{"secretRef", {{"name", secret}, {"optional", true}}}}};
  }
  return made;
}

}  // namespace strobe
