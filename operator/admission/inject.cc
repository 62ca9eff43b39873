#include "operator/admission/inject.h"

#include <algorithm>

#include "collector/base/name_rules.h"
#include "collector/base/sha256.h"
#include "collector/base/strings.h"
#include "collector/base/version.h"
#include "operator/admission/annotation_values.h"
#include "operator/kube/pod_json.h"
#include "operator/kube/token_review.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

constexpr char kSharedVolume[] = "strobe", kSpoolVolume[] = "strobe-spool",
               kTokenVolume[] = "strobe-token";
constexpr char kSharedPath[] = "/var/strobe", kSpoolPath[] = "/var/lib/strobe",
               kTokenPath[] = "/var/run/secrets/strobe";
constexpr int kMetricsPort = 9472;

// Members of unknown JSON: never throws, whatever somebody put there.
const Json& Member(const Json& object, const std::string& name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}
std::string Text(const Json& object, const std::string& name) {
  const Json& value = Member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}
bool IsArray(const Json& value) { return value.is_array(); }
std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The index of the entry of that name; none when there is none.
std::optional<std::size_t> Find(const Json& list, std::string_view name) {
  for (std::size_t i = 0; IsArray(list) && i < list.size(); ++i) {
    if (Text(list[i], "name") == name) return i;
  }
  return std::nullopt;
}

// The trainers: named ones, or those that ChooseTrainers has.
std::vector<std::size_t> Trainers(const Json& pod, std::vector<std::string>& warnings) {
  const Json& containers = Member(Member(pod, "spec"), "containers");
  std::vector<std::size_t> chosen;
  const std::string named =
      Text(Member(Member(pod, "metadata"), "annotations"), "strobe.dev/containers");
  if (!named.empty()) {
    for (const std::string& name : Split(named, ',')) {
      if (const std::optional<std::size_t> index = Find(containers, name))
        chosen.push_back(*index);
      else
        warnings.push_back(StrCat("strobe.dev/containers: there is no container \"",
                                  name.substr(0, 63), "\"; it is passed over"));
    }
    if (!chosen.empty()) return chosen;
  }
  std::vector<ContainerDevices> devices;
  for (const Json& container : containers) devices.push_back(kube::DevicesOf(container));
  return ChooseTrainers(devices);
}

// Whether the pod as it is has requests equal to limits everywhere: then ours must too, or it
// would lose its CPU pinning.
bool IsGuaranteed(const Json& spec) {
  for (const char* list : {"containers", "initContainers"}) {
    const Json& containers = Member(spec, list);
    for (std::size_t i = 0; IsArray(containers) && i < containers.size(); ++i) {
      if (Text(containers[i], "name") == kube::kSidecarContainer) continue;
      const Json& resources = Member(containers[i], "resources");
      for (const char* kind : {"cpu", "memory"}) {
        const Json& limit = Member(Member(resources, "limits"), kind);
        const Json& request = Member(Member(resources, "requests"), kind);
        if (limit.is_null() || (!request.is_null() && request != limit)) return false;
      }
    }
  }
  return true;
}

// What the pod's annotations say, where they make sense.
class Wishes {
 public:
  Wishes(const Json& pod, std::vector<std::string>& warnings)
      : annotations_(Member(Member(pod, "metadata"), "annotations")), warnings_(warnings) {}

  template <typename Check>
  std::string Get(const char* name, const std::string& otherwise, const Check& check,
                  const char* should) {
    const std::string value = Text(annotations_, StrCat("strobe.dev/", name));
    if (value.empty()) return otherwise;
    if (check(value)) return value;
    warnings_.push_back(StrCat("strobe.dev/", name, " must be ", should, "; \"",
                               value.substr(0, 40), "\" is ignored"));
    return otherwise;
  }

 private:
  const Json& annotations_;
  std::vector<std::string>& warnings_;
};

Json SecurityContext(const InjectionSettings& settings) {
  Json context = {{"allowPrivilegeEscalation", false},
                  {"capabilities", {{"drop", {"ALL"}}}},
                  {"readOnlyRootFilesystem", true},
                  {"runAsNonRoot", true},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (settings.user) {
    context["runAsUser"] = *settings.user;
    context["runAsGroup"] = *settings.user;
  }
  return context;
}

// `trainers`: the names of the containers that train.
Json Sidecar(const Json& pod, const InjectionSettings& settings, const std::string& roots,
             const std::vector<std::string>& trainers, std::vector<std::string>& warnings) {
  Wishes wishes(pod, warnings);
  const std::string port = wishes.Get("port", "9470", IsPort, "a port");
  std::string framework;
  for (const std::string& one : Split(wishes.Get("framework-port", StrCat(settings.framework_port),
                                                 IsPorts, "a port, or several with commas"),
                                      ',')) {
    framework += StrCat(framework.empty() ? "" : ",", "localhost:", one);
  }
  const std::string cpu = wishes.Get("cpu", settings.cpu, IsQuantity, "a quantity such as 100m");
  const std::string memory = wishes.Get("memory", "", IsQuantity, "a quantity such as 512Mi");
  const std::string spool_size =
      wishes.Get("spool-size", settings.spool_size, IsSize, "a size such as 2GiB");
  const std::string upload_rate =
      wishes.Get("upload-rate", "", IsUploadRate, "bytes per second such as 100MB, at least 1MB");
  const std::string flight =
      wishes.Get("flight-recorder", "", IsLookBack, "a duration such as 10s, at most 10m");
  const std::string compat = wishes.Get("compat-port", "", IsPort, "a port");
  const std::string secret = wishes.Get(
      "storage-secret", "", [](const std::string& name) { return IsSafeName(name); },
      "the name of a Secret");

  Json arguments = {StrCat("--listen=0.0.0.0:", port),
                    StrCat("--http-listen=0.0.0.0:", kMetricsPort),
                    StrCat("--framework=", framework),
                    StrCat("--install-dir=", kSharedPath),
                    StrCat("--agent-dir=", kSharedPath, "/agent"),
                    StrCat("--spool-dir=", kSpoolPath, "/spool"),
                    StrCat("--spool-size=", spool_size),
                    StrCat("--log-level=", settings.log_level)};
  // Programs of several can be told apart only by what their environment says.
  if (trainers.size() > 1) arguments.push_back(StrCat("--containers=", Join(trainers, ",")));
  if (!upload_rate.empty()) arguments.push_back(StrCat("--upload-rate=", upload_rate));
  if (!flight.empty()) arguments.push_back(StrCat("--flight-recorder=", flight));
  // Stock clients show no certificate: only what is in the pod may be one.
  if (!compat.empty()) arguments.push_back(StrCat("--compat-listen=127.0.0.1:", compat));
  Json environment = {
      {{"name", "POD_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}};
  Json mounts = {{{"name", kSharedVolume}, {"mountPath", kSharedPath}},
                 {{"name", kSpoolVolume}, {"mountPath", kSpoolPath}}};
  if (settings.enrollment.empty()) {
    arguments.push_back("--insecure-plaintext");
  } else {
    arguments.push_back(StrCat("--enroll=", settings.enrollment));
    arguments.push_back(StrCat("--token-file=", kTokenPath, "/token"));
    arguments.push_back(StrCat("--state-dir=", kSpoolPath));
    environment.push_back({{"name", "STROBE_ROOTS"}, {"value", roots}});
    mounts.push_back({{"name", kTokenVolume}, {"mountPath", kTokenPath}, {"readOnly", true}});
  }
  // A logdir on a volume of the pod's, such as NFS: "volume:/mount/path".
  const std::string logdir = wishes.Get(
      "logdir-volume", "",
      [&pod](const std::string& text) {
        const std::size_t colon = text.find(":/");
        return colon != std::string::npos &&
               Find(Member(Member(pod, "spec"), "volumes"), text.substr(0, colon)).has_value();
      },
      "NAME:/PATH of one of the pod's volumes");
  if (!logdir.empty()) {
    const std::size_t colon = logdir.find(':');
    mounts.push_back({{"name", logdir.substr(0, colon)}, {"mountPath", logdir.substr(colon + 1)}});
  }
  const bool guaranteed = IsGuaranteed(Member(pod, "spec"));
  const std::string most = memory.empty() ? settings.memory_limit : memory;
  Json requests = {{"cpu", cpu},
                   {"memory", guaranteed || !memory.empty() ? most : settings.memory}};
  // A limit on CPU would throttle the one moment that matters, so only where it must be.
  Json limits = {{"memory", most}};
  if (guaranteed) limits["cpu"] = cpu;

  Json sidecar = {
      {"name", kube::kSidecarContainer},
      {"image", settings.image},
      {"restartPolicy", "Always"},
      {"args", std::move(arguments)},
      {"env", std::move(environment)},
      {"ports",
       {{{"name", kube::kSidecarPort}, {"containerPort", std::stoi(port)}, {"protocol", "TCP"}},
        {{"name", "strobe-metrics"}, {"containerPort", kMetricsPort}, {"protocol", "TCP"}}}},
      {"resources", {{"requests", std::move(requests)}, {"limits", std::move(limits)}}},
      {"securityContext", SecurityContext(settings)},
      // Passes as soon as the agent is where the trainer looks for it; the trainer
      // itself is not waited for, it starts only after that.
      {"startupProbe",
       {{"httpGet", {{"path", "/healthz"}, {"port", kMetricsPort}}},
        {"periodSeconds", 1},
        {"failureThreshold", 60}}},
      {"volumeMounts", std::move(mounts)}};
  if (!settings.pull_policy.empty()) sidecar["imagePullPolicy"] = settings.pull_policy;
  if (!secret.empty()) {
    // A pod must start without its traces' store: the sidecar says what is missing.
    sidecar["envFrom"] = {{{"secretRef", {{"name", secret}, {"optional", true}}}}};
  }
  return sidecar;
}

// Collects what is to be added, one list at a time.
class Patch {
 public:
  explicit Patch(const Json& pod) : pod_(pod) {}

  // Appends to the list at `path` of the pod, which may not be there yet.
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
    if (std::find(made_.begin(), made_.end(), path) != made_.end()) return;
    const Json::json_pointer pointer(path);
    if (pod_.contains(pointer) && !pod_[pointer].is_null()) return;
    Add(path, std::move(empty));
    made_.push_back(path);
  }

  const Json& pod_;
  Json operations_ = Json::array();
  std::vector<std::string> made_;
};

void AddVolumes(const Json& spec, bool tls, Patch& patch) {
  const Json& volumes = Member(spec, "volumes");
  // No sizeLimit: going over it would evict the trainer. The sidecar keeps to --spool-size.
  for (const char* name : {kSharedVolume, kSpoolVolume}) {
    if (!Find(volumes, name))
      patch.Append("/spec/volumes", {{"name", name}, {"emptyDir", Json::object()}});
  }
  if (tls && !Find(volumes, kTokenVolume)) {
    patch.Append("/spec/volumes", {{"name", kTokenVolume},
                                   {"projected",
                                    {{"sources",
                                      {{{"serviceAccountToken",
                                         {{"audience", kube::kTokenAudience},
                                          {"expirationSeconds", 3600},
                                          {"path", "token"}}}}}}}}});
  }
}

void AddToTrainer(const Json& container, std::size_t index, bool alone, bool python, Patch& patch,
                  std::vector<std::string>& warnings) {
  const std::string path = StrCat("/spec/containers/", index);
  std::vector<std::pair<std::string, std::string>> variables = {{"STROBE_DIR", kSharedPath}};
  if (!alone) variables.emplace_back("STROBE_CONTAINER", Text(container, "name"));
  if (kube::DevicesOf(container).maybe_cuda)
    variables.emplace_back("CUDA_INJECTION64_PATH", StrCat(kSharedPath, "/lib/libstrobe_agent.so"));
  if (python) variables.emplace_back("PYTHONPATH", StrCat(kSharedPath, "/python"));
  for (const auto& [name, value] : variables) {
    const Json& environment = Member(container, "env");
    const std::optional<std::size_t> set = Find(environment, name);
    if (!set) {
      patch.Append(path + "/env", {{"name", name}, {"value", value}});
    } else if (Text(environment[*set], "value") != value) {
      warnings.push_back(StrCat("container ", Text(container, "name"), " sets ", name,
                                " itself; it is left as it is"));
    }
  }
  const Json& mounts = Member(container, "volumeMounts");
  for (std::size_t i = 0; IsArray(mounts) && i < mounts.size(); ++i) {
    if (Text(mounts[i], "name") == kSharedVolume) return;
    if (Text(mounts[i], "mountPath") == kSharedPath) {
      warnings.push_back(StrCat("container ", Text(container, "name"), " mounts something at ",
                                kSharedPath, " itself; annotations and GPU activity are off"));
      return;
    }
  }
  patch.Append(path + "/volumeMounts", {{"name", kSharedVolume}, {"mountPath", kSharedPath}});
}

// The API server sends nothing else; whatever comes, a patch must fit it.
bool IsWellFormed(const Json& pod) {
  const auto fits = [](const Json& value, bool array) {
    return value.is_null() || (array ? value.is_array() : value.is_object());
  };
  const Json& spec = Member(pod, "spec");
  const Json& metadata = Member(pod, "metadata");
  const Json& containers = Member(spec, "containers");
  if (!metadata.is_object() || !fits(Member(metadata, "labels"), false) ||
      !fits(Member(metadata, "annotations"), false) || !fits(Member(spec, "volumes"), true) ||
      !fits(Member(spec, "initContainers"), true) || !IsArray(containers) || containers.empty()) {
    return false;
  }
  return std::all_of(containers.begin(), containers.end(), [&](const Json& container) {
    return container.is_object() && fits(Member(container, "env"), true) &&
           fits(Member(container, "volumeMounts"), true);
  });
}

std::string WhyNot(const Json& pod) {
  if (!IsWellFormed(pod)) return "it has no containers, or not in the form of a pod";
  const Json& metadata = Member(pod, "metadata");
  const Json& spec = Member(pod, "spec");
  if (Text(Member(metadata, "labels"), kube::kInjectLabel) == "false") return "its label says so";
  if (Member(metadata, "annotations").is_object() &&
      Member(metadata, "annotations").contains("kubernetes.io/config.mirror"))
    return "it is a static pod's mirror";
  if (Text(Member(spec, "os"), "name") == "windows") return "it runs on Windows";
  const Json& containers = Member(spec, "containers");
  const bool ours = !Text(Member(metadata, "annotations"), kube::kStatusAnnotation).empty();
  if (Find(containers, kube::kSidecarContainer) ||
      (Find(Member(spec, "initContainers"), kube::kSidecarContainer) && !ours))
    return "it brings a strobe-sidecar of its own";
  return "";
}

}  // namespace

Injection Inject(const Json& pod, const InjectionSettings& settings, const std::string& roots) {
  Injection injection;
  injection.skipped = WhyNot(pod);
  if (!injection.skipped.empty()) return injection;
  const Json& spec = Member(pod, "spec");
  Patch patch(pod);
  AddVolumes(spec, !settings.enrollment.empty(), patch);
  const Json& containers = Member(spec, "containers");
  const std::vector<std::size_t> trainers = Trainers(pod, injection.warnings);
  std::vector<std::string> names;
  for (const std::size_t index : trainers) names.push_back(Text(containers[index], "name"));
  std::vector<std::string> wishes_warnings;
  Json sidecar = Sidecar(pod, settings, roots, names, wishes_warnings);
  Sha256 hash;
  hash.Update(Dump(sidecar));
  const Json& inits = Member(spec, "initContainers");
  if (const std::optional<std::size_t> index = Find(inits, kube::kSidecarContainer)) {
    // Some webhooks do not know the field and drop it.
    if (Text(inits[*index], "restartPolicy") != "Always")
      patch.Set(StrCat("/spec/initContainers/", *index), "restartPolicy", "Always");
  } else {
    // Last, so that no index anybody else computed moves.
    patch.Append("/spec/initContainers", std::move(sidecar));
    injection.warnings.insert(injection.warnings.end(), wishes_warnings.begin(),
                              wishes_warnings.end());
  }
  const bool python =
      Text(Member(Member(pod, "metadata"), "annotations"), "strobe.dev/python") == "true";
  for (const std::size_t index : trainers) {
    AddToTrainer(containers[index], index, trainers.size() == 1, python, patch, injection.warnings);
  }
  const Json& metadata = Member(pod, "metadata");
  if (Text(Member(metadata, "labels"), kInjectedLabel).empty())
    patch.Set("/metadata/labels", kInjectedLabel, "true");
  if (Text(Member(metadata, "annotations"), kube::kStatusAnnotation).empty()) {
    patch.Set(
        "/metadata/annotations", kube::kStatusAnnotation,
        Dump({{"version", kVersion}, {"hash", hash.Hex().substr(0, 16)}, {"containers", names}}));
  }
  injection.patch = patch.Take();
  return injection;
}

std::string InjectionDamage(const Json& pod) {
  if (!WhyNot(pod).empty()) return "";
  const Json& spec = Member(pod, "spec");
  const Json& inits = Member(spec, "initContainers");
  const std::optional<std::size_t> index = Find(inits, kube::kSidecarContainer);
  if (!index) return "lost";
  const Json& sidecar = inits[*index];
  if (Text(sidecar, "restartPolicy") != "Always") return "mutilated: restartPolicy is gone";
  if (!Find(Member(sidecar, "ports"), kube::kSidecarPort)) return "mutilated: its port is gone";
  for (const char* volume : {kSharedVolume, kSpoolVolume}) {
    if (!Find(Member(spec, "volumes"), volume) || !Find(Member(sidecar, "volumeMounts"), volume))
      return StrCat("mutilated: volume ", volume, " is gone");
  }
  return "";
}

}  // namespace strobe
