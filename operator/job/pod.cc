#include "operator/job/pod.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "capture/accelerators.h"
#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod_roles.h"
#include "operator/job/ranks.h"

namespace strobe::job {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxProcesses = 1024;

std::size_t NumberOf(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number <= kMaxProcesses ? number : 0;
}

// How many accelerators the container may use.
std::size_t AcceleratorsOf(const Json& container) {
  const Json& limits = kube::Member(kube::Member(container, "resources"), "limits");
  if (!limits.is_object()) return 0;
  std::size_t count = 0;
  for (const auto& [resource, quantity] : limits.items()) {
    if (capture::FindAccelerator(resource) == nullptr) continue;
    if (quantity.is_number_unsigned())
      count += std::min(quantity.get<std::size_t>(), kMaxProcesses);
    if (quantity.is_string()) count += NumberOf(quantity.get_ref<const std::string&>());
  }
  return count;
}

std::size_t Meaning(std::string_view value, const Json& container) {
  if (value == "gpu" || value == "auto") return AcceleratorsOf(container);
  return NumberOf(value);
}

// Command and arguments, separated by line breaks. A shell's script is one argument.
std::string CommandLine(const Json& container) {
  std::string line;
  for (const char* list : {"command", "args"}) {
    const Json& words = kube::Member(container, list);
    if (!words.is_array()) continue;
    for (const Json& word : words) {
      if (word.is_string()) line += word.get_ref<const std::string&>() + "\n";
    }
  }
  return line;
}

constexpr std::string_view kOptions[] = {"--nproc-per-node", "--nproc_per_node"};

// The value of the option, which follows it behind "=" or white space; empty if it is not there.
std::string_view OptionIn(std::string_view line, std::string_view option) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const std::size_t at = line.find(option);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + option.size());
  if (line.starts_with('='))
    line.remove_prefix(1);
  else
    line.remove_prefix(static_cast<std::size_t>(
        std::find_if_not(line.begin(), line.end(), is_space) - line.begin()));
  return line.substr(
      0, static_cast<std::size_t>(std::find_if(line.begin(), line.end(), is_space) - line.begin()));
}

using Values = std::map<std::string, std::string>;

// References can multiply a text, and no rank is longer.
constexpr std::size_t kMaxExpandedBytes = 1024;

std::optional<std::string> LookUp(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

// Returns the key in a path such as "metadata.labels['key']"; nothing for another path.
std::optional<std::string> KeyOf(std::string_view path, std::string_view map) {
  if (!path.starts_with(map) || !path.ends_with("']")) return std::nullopt;
  path.remove_prefix(map.size());
  if (!path.starts_with("['") || path.size() < 4) return std::nullopt;
  return std::string(path.substr(2, path.size() - 4));
}

std::optional<std::string> Field(const std::string& path, const PodInfo& pod) {
  if (path == "metadata.name") return pod.name;
  if (path == "metadata.uid") return pod.uid;
  // Kubernetes resolves a missing label to an empty text.
  if (const auto key = KeyOf(path, "metadata.labels")) return LookUp(pod.labels, *key).value_or("");
  if (const auto key = KeyOf(path, "metadata.annotations"))
    return LookUp(pod.annotations, *key).value_or("");
  return std::nullopt;
}

// Expands references as Kubernetes does; "$$" is "$". Nothing if a referenced variable is not
// known.
std::optional<std::string> Expand(const std::string& text, const Values& before) {
  if (text.find('$') == std::string::npos) return text;
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // NOLINTNEXTLINE(bugprone-branch-clone): the last branch is what remains of the syntax.
    if (text[i] != '$' || i + 1 == text.size()) {
      expanded += text[i];
    } else if (text[i + 1] == '$') {
      expanded += text[++i];
    } else if (const std::size_t end = text.find(')', i);
               text[i + 1] == '(' && end != std::string::npos) {
      const auto value = LookUp(before, text.substr(i + 2, end - i - 2));
      if (!value) return std::nullopt;
      expanded += *value;
      i = end;
    } else {
      expanded += text[i];
    }
    if (expanded.size() > kMaxExpandedBytes) return std::nullopt;
  }
  return expanded;
}

std::optional<std::string> ValueOf(const Json& variable, const Values& before, const PodInfo& pod) {
  const Json& from = kube::ObjectOf(variable, "valueFrom");
  if (from.empty()) return Expand(variable.value("value", ""), before);
  if (!from.contains("fieldRef")) return std::nullopt;
  return Field(from["fieldRef"].value("fieldPath", ""), pod);
}

// Annotations can be changed by others; each port costs an attempt to connect.
constexpr std::size_t kMaxOtherPorts = 7;
constexpr std::size_t kMaxResourceBytes = 63;
// Each kubelet gives its node both.
constexpr std::array<const char*, 2> kSystemLabels = {"kubernetes.io/os", "beta.kubernetes.io/os"};
// Far more than any pod has. Their writers may add as many as fit into etcd, and many pods are in
// memory at once.
constexpr std::size_t kMaxOwners = 16, kMaxContainers = 128;

std::map<std::string, std::string> ReadMap(const Json& object, const char* field) {
  std::map<std::string, std::string> values;
  const Json& map = kube::Member(object, field);
  if (!map.is_object()) return values;
  for (const auto& [key, value] : map.items()) {
    if (value.is_string()) values[key] = value.get<std::string>();
  }
  return values;
}

int PortOf(const Json& container) {
  for (const Json& port : kube::ElementsOf(container, "ports")) {
    if (port.value("name", "") == kube::kSidecarPort) return port.value("containerPort", 0);
  }
  return 0;
}

void ReadStates(const Json& status, PodInfo& pod) {
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& entry : kube::ElementsOf(status, list)) {
      if (pod.states.size() >= 2 * kMaxContainers) return;
      PodInfo::ContainerState& state = pod.states.emplace_back();
      state.name = entry.value("name", "");
      state.restarts = entry.value("restartCount", 0);
      const Json now = entry.value("state", Json::object());
      if (now.contains("waiting")) state.waiting = now["waiting"].value("reason", "");
      // A container that was restarted has its end in lastState.
      for (const Json& ended : {entry.value("lastState", Json::object()), now}) {
        if (!ended.contains("terminated")) continue;
        const Json& end = ended["terminated"];
        state.end_reason = end.value("reason", "");
        state.exit_code = end.value("exitCode", 0);
        state.ended_at = kube::ReadTime(end, "finishedAt");
      }
    }
  }
}

// The resources of which the scheduler finds too little: "Insufficient cpu" and the like in its
// message (pkg/scheduler/framework/plugins/noderesources/fit.go of Kubernetes 1.34). The rest of
// the message counts nodes and changes while the pod waits.
std::set<std::string> InsufficientIn(const std::string& message) {
  constexpr std::string_view kInsufficient = "Insufficient ";
  std::set<std::string> resources;
  for (std::size_t at = 0; (at = message.find(kInsufficient, at)) != std::string::npos;) {
    at += kInsufficient.size();
    std::string name = message.substr(at, message.find_first_of(", ", at) - at);
    if (!name.empty() && name.back() == '.') name.pop_back();
    if (!name.empty()) resources.insert(CutUtf8(name, kMaxResourceBytes));
  }
  return resources;
}

// What the sidecar requests counts too, and may be what is too much.
void ReadScheduling(const Json& status, const Json& spec, PodInfo& pod) {
  const Json& conditions = kube::Member(status, "conditions");
  const std::optional<std::size_t> scheduled = kube::FindBy(conditions, "type", "PodScheduled");
  if (!scheduled || kube::TextOf(conditions[*scheduled], "reason") != "Unschedulable") return;
  const std::set<std::string> missing =
      InsufficientIn(kube::TextOf(conditions[*scheduled], "message"));
  pod.unschedulable = "cannot be scheduled";
  if (missing.empty()) return;
  pod.unschedulable += StrCat(": Insufficient ", Join({missing.begin(), missing.end()}, ", "));
  std::vector<std::string> ours;
  for (const char* list : {"initContainers", "containers"}) {
    const Json& containers = kube::Member(spec, list);
    const std::optional<std::size_t> sidecar = kube::Find(containers, kube::kSidecarContainer);
    if (!sidecar) continue;
    const Json& requests =
        kube::Member(kube::Member(containers[*sidecar], "resources"), "requests");
    for (const std::string& resource : missing) {
      const std::string amount = kube::TextOf(requests, resource);
      if (ParseQuantity(amount).value_or(0) > 0) ours.push_back(StrCat(resource, " ", amount));
    }
  }
  if (!ours.empty())
    pod.unschedulable += StrCat("; its sidecar requests ", Join(ours, ", "), " of it");
}

void ReadContainers(const Json& spec, PodInfo& pod) {
  // The sidecar is injected as a native sidecar, which is an init container. A plain container is
  // accepted too.
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : kube::ElementsOf(spec, list)) {
      if (container.value("name", "") != kube::kSidecarContainer || pod.sidecar_port != 0) continue;
      pod.has_sidecar = true;
      pod.sidecar_port = PortOf(container);
      // Without restartPolicy: Always, the init container never ends and blocks the pod.
      if (std::string_view(list) == "initContainers" &&
          container.value("restartPolicy", "") != "Always") {
        pod.damage =
            "the container strobe-sidecar has lost its restartPolicy: Always, probably to another "
            "webhook, and holds the pod in its init phase";
      }
    }
  }
  for (const Json& container : kube::ElementsOf(spec, "containers")) {
    if (container.value("name", "") == kube::kSidecarContainer) continue;
    if (pod.containers.size() >= kMaxContainers) break;
    ContainerInfo& info = pod.containers.emplace_back();
    info.name = container.value("name", "");
    info.devices = DevicesOf(container);
    info.env = ReadRankVariables(container, pod);
    info.processes = ProcessesOf(container);
    info.certain_processes = CertainProcessesOf(container);
    info.role = RoleInCommand(CommandLine(container));
  }
}

// A sidecar on the host's network declares no port; see ChoosePorts.
void ReadHostPorts(const Json& status, PodInfo& pod) {
  if (pod.sidecar_port != 0 || !pod.has_sidecar) return;
  const Json ports = status.is_object() ? status.value("ports", Json::array()) : Json::array();
  for (const Json& port : ports) {
    if (!port.is_number_integer() || port < 1 || port > 65535) continue;
    if (pod.sidecar_port == 0)
      pod.sidecar_port = port.get<int>();
    else if (pod.other_ports.size() < kMaxOtherPorts)
      pod.other_ports.push_back(port.get<int>());
  }
}

// Reads the trainers that injection chose, or those that it would choose.
void ReadTrainers(PodInfo& pod) {
  const auto status = pod.annotations.find(kube::kStatusAnnotation);
  const Json written =
      status == pod.annotations.end() ? Json() : Json::parse(status->second, nullptr, false);
  if (written.is_object()) {
    for (const Json& name : written.value("containers", Json::array())) {
      if (pod.trainers.size() >= kMaxContainers) break;
      if (name.is_string() && FindContainer(pod, name) != nullptr) pod.trainers.push_back(name);
    }
  }
  ReadHostPorts(written, pod);
  pod.injected = !pod.trainers.empty();
  if (pod.injected) return;
  std::vector<capture::ContainerDevices> devices;
  for (const ContainerInfo& container : pod.containers) devices.push_back(container.devices);
  for (const std::size_t index : capture::ChooseTrainers(devices))
    pod.trainers.push_back(pod.containers[index].name);
}

// Whether a node with this operating system fulfils a requirement of a node's labels.
bool Fulfils(std::string_view system, const Json& requirement) {
  const std::string key = kube::TextOf(requirement, "key"),
                    relation = kube::TextOf(requirement, "operator");
  if (std::find(kSystemLabels.begin(), kSystemLabels.end(), key) == kSystemLabels.end())
    return true;
  const Json& values = kube::Member(requirement, "values");
  const bool listed =
      values.is_array() && std::find(values.begin(), values.end(), system) != values.end();
  if (relation == "In") return listed;
  if (relation == "NotIn") return !listed;
  return relation == "Exists";  // The label is no number, for "Gt" and "Lt".
}

// Whether the scheduler may choose a node with this operating system: every label of nodeSelector
// has to fit, and one of the affinity's terms. A term without requirements fits no node.
bool MayRunOn(std::string_view system, const Json& spec) {
  const Json& selector = kube::Member(spec, "nodeSelector");
  for (const char* label : kSystemLabels) {
    if (!kube::Member(selector, label).is_null() && kube::TextOf(selector, label) != system)
      return false;
  }
  const Json& affinity = kube::Member(kube::Member(spec, "affinity"), "nodeAffinity");
  const Json& terms =
      kube::Member(kube::Member(affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
                   "nodeSelectorTerms");
  if (!terms.is_array() || terms.empty()) return true;
  return std::any_of(terms.begin(), terms.end(), [&](const Json& term) {
    const Json &labels = kube::Member(term, "matchExpressions"),
               &fields = kube::Member(term, "matchFields");
    const bool any = labels.is_array() && !labels.empty();
    if (!any) return fields.is_array() && !fields.empty();
    return std::all_of(labels.begin(), labels.end(),
                       [&](const Json& label) { return Fulfils(system, label); });
  });
}

// Most pods leave spec.os out.
bool RunsOnWindows(const Json& spec) {
  const std::string told = kube::TextOf(kube::Member(spec, "os"), "name");
  if (!told.empty()) return told == "windows";
  return MayRunOn("windows", spec) && !MayRunOn("linux", spec);
}

}  // namespace

const nlohmann::json& SidecarOf(const nlohmann::json& spec) {
  for (const char* list : {"initContainers", "containers"}) {
    const nlohmann::json& containers = kube::Member(spec, list);
    if (const auto found = kube::Find(containers, kube::kSidecarContainer))
      return containers[*found];
  }
  return kube::Member(spec, "");
}

std::vector<const nlohmann::json*> OtherContainers(const nlohmann::json& spec) {
  std::vector<const nlohmann::json*> others;
  for (const char* list : {"containers", "initContainers"}) {
    const nlohmann::json& containers = kube::Member(spec, list);
    for (std::size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
      if (kube::TextOf(containers[i], "name") != kube::kSidecarContainer)
        others.push_back(&containers[i]);
    }
  }
  return others;
}

std::size_t ProcessesOf(const Json& container) {
  const std::string line = CommandLine(container);
  for (const std::string_view option : kOptions) {
    if (const std::size_t count = Meaning(OptionIn(line, option), container); count > 0)
      return count;
  }
  return Meaning(kube::VariableOf(container, "PET_NPROC_PER_NODE").value_or(""), container);
}

std::size_t CertainProcessesOf(const Json& container) {
  const std::string line = CommandLine(container);
  std::string_view value;
  std::size_t mentions = 0;
  for (const std::string_view option : kOptions) {
    if (mentions == 0) value = OptionIn(line, option);
    for (std::size_t at = line.find(option); at != std::string::npos;
         at = line.find(option, at + 1))
      ++mentions;
  }
  return mentions == 1 ? NumberOf(value) : 0;
}

std::map<std::string, std::string> ReadRankVariables(const Json& container, const PodInfo& pod) {
  Values values;
  for (const Json& variable : kube::ElementsOf(container, "env")) {
    const std::string name = variable.value("name", "");
    // The last variable of a name applies, even if its value is not known.
    if (std::optional<std::string> value = ValueOf(variable, values, pod))
      values[name] = *std::move(value);
    else
      values.erase(name);
  }
  std::erase_if(values, [](const auto& entry) { return !IsRankVariable(entry.first); });
  return values;
}

PodInfo ParsePod(const Json& object) {
  PodInfo pod;
  try {
    const Json& metadata = kube::ObjectOf(object, "metadata");
    pod.name = metadata.value("name", "");
    pod.uid = metadata.value("uid", "");
    pod.created = kube::ReadTime(metadata, "creationTimestamp");
    pod.terminating = metadata.contains("deletionTimestamp");
    pod.labels = ReadMap(metadata, "labels");
    pod.annotations = ReadMap(metadata, "annotations");
    const auto label = pod.labels.find(kube::kInjectLabel);
    pod.wants_injection = label != pod.labels.end() && label->second == "true";
    for (const Json& owner : kube::ElementsOf(metadata, "ownerReferences")) {
      if (pod.owners.size() >= kMaxOwners) break;
      pod.owners.push_back({owner.value("kind", ""), owner.value("name", "")});
    }
    const Json& status = kube::ObjectOf(object, "status");
    pod.node = kube::ObjectOf(object, "spec").value("nodeName", "");
    pod.ip = status.value("podIP", "");
    pod.phase = status.value("phase", "");
    pod.reason = status.value("reason", "");
    ReadStates(status, pod);
    ReadScheduling(status, kube::Member(object, "spec"), pod);
    ReadContainers(kube::ObjectOf(object, "spec"), pod);
    ReadTrainers(pod);
  } catch (const Json::exception&) {
    // The remaining fields stay empty. A pod without a port is reported as a pod without a sidecar.
  }
  return pod;
}

void KeepUsed(PodInfo& pod) {
  for (auto* values : {&pod.labels, &pod.annotations}) {
    std::erase_if(*values, [](const auto& entry) {
      return !IsRankKey(entry.first) && !IsRoleKey(entry.first) &&
             entry.first != kube::kNotInjectedAnnotation && entry.first != kube::kTemplateHashLabel;
    });
  }
}

std::string WhyNeverInjected(const Json& object) {
  const Json& annotations = kube::Member(kube::Member(object, "metadata"), "annotations");
  if (annotations.is_object() && annotations.contains("kubernetes.io/config.mirror"))
    return "it is the mirror of a static pod";
  if (RunsOnWindows(kube::Member(object, "spec"))) return "it runs on Windows";
  return "";
}

capture::ContainerDevices DevicesOf(const Json& container) {
  capture::ContainerDevices devices;
  const Json nothing = Json::object();
  const Json& resources = kube::Member(container, "resources");
  const Json& limits = kube::Member(resources, "limits");
  const Json& claims = kube::Member(resources, "claims");
  devices.claims = claims.is_array() && !claims.empty();
  bool cuda = false;
  for (const auto& [resource, quantity] : (limits.is_object() ? limits : nothing).items()) {
    const capture::Accelerator* accelerator = capture::FindAccelerator(resource);
    if (accelerator == nullptr || !kube::IsSome(quantity)) continue;
    devices.accelerator = true;
    devices.planes.framework |= accelerator->planes.framework;
    devices.planes.agent |= accelerator->planes.agent;
    cuda |= accelerator->cuda;
  }
  devices.maybe_cuda = cuda || devices.claims || !devices.accelerator;
  return devices;
}

}  // namespace strobe::job
