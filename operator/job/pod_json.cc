#include "operator/job/pod_json.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "common/text/utf8.h"
#include "operator/base/json_fields.h"
#include "operator/base/json_members.h"
#include "operator/base/names.h"
#include "operator/job/pod_env.h"
#include "operator/job/pod_processes.h"
#include "operator/job/ranks.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

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
  const Json& map = Member(object, field);
  if (!map.is_object()) return values;
  for (const auto& [key, value] : map.items()) {
    if (value.is_string()) values[key] = value.get<std::string>();
  }
  return values;
}

int PortOf(const Json& container) {
  for (const Json& port : ElementsOf(container, "ports")) {
    if (port.value("name", "") == kSidecarPort) return port.value("containerPort", 0);
  }
  return 0;
}

// True for a quantity other than 0. "0" removes a device that a template requests.
bool IsSome(const Json& quantity) {
  if (quantity.is_number()) return quantity != 0;
  return quantity.is_string() && quantity != "0";
}

void ReadStates(const Json& status, PodInfo& pod) {
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& entry : ElementsOf(status, list)) {
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
        state.ended_at = ReadTime(end, "finishedAt");
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
  const Json& conditions = Member(status, "conditions");
  const std::optional<std::size_t> scheduled = FindBy(conditions, "type", "PodScheduled");
  if (!scheduled || TextOf(conditions[*scheduled], "reason") != "Unschedulable") return;
  const std::set<std::string> missing = InsufficientIn(TextOf(conditions[*scheduled], "message"));
  pod.unschedulable = "cannot be scheduled";
  if (missing.empty()) return;
  pod.unschedulable += StrCat(": Insufficient ", Join({missing.begin(), missing.end()}, ", "));
  std::vector<std::string> ours;
  for (const char* list : {"initContainers", "containers"}) {
    const Json& containers = Member(spec, list);
    const std::optional<std::size_t> sidecar = Find(containers, kSidecarContainer);
    if (!sidecar) continue;
    const Json& requests = Member(Member(containers[*sidecar], "resources"), "requests");
    for (const std::string& resource : missing) {
      const std::string amount = TextOf(requests, resource);
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
    for (const Json& container : ElementsOf(spec, list)) {
      if (container.value("name", "") != kSidecarContainer || pod.sidecar_port != 0) continue;
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
  for (const Json& container : ElementsOf(spec, "containers")) {
    if (container.value("name", "") == kSidecarContainer) continue;
    if (pod.containers.size() >= kMaxContainers) break;
    ContainerInfo& info = pod.containers.emplace_back();
    info.name = container.value("name", "");
    info.devices = DevicesOf(container);
    info.env = ReadRankVariables(container, pod);
    info.processes = ProcessesOf(container);
    info.certain_processes = CertainProcessesOf(container);
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
  const auto status = pod.annotations.find(kStatusAnnotation);
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
  std::vector<ContainerDevices> devices;
  for (const ContainerInfo& container : pod.containers) devices.push_back(container.devices);
  for (const std::size_t index : ChooseTrainers(devices))
    pod.trainers.push_back(pod.containers[index].name);
}

// Whether a node with this operating system fulfils a requirement of a node's labels.
bool Fulfils(std::string_view system, const Json& requirement) {
  const std::string key = TextOf(requirement, "key"), relation = TextOf(requirement, "operator");
  if (std::find(kSystemLabels.begin(), kSystemLabels.end(), key) == kSystemLabels.end())
    return true;
  const Json& values = Member(requirement, "values");
  const bool listed =
      values.is_array() && std::find(values.begin(), values.end(), system) != values.end();
  if (relation == "In") return listed;
  if (relation == "NotIn") return !listed;
  return relation == "Exists";  // The label is no number, for "Gt" and "Lt".
}

// Whether the scheduler may choose a node with this operating system: every label of nodeSelector
// has to fit, and one of the affinity's terms. A term without requirements fits no node.
bool MayRunOn(std::string_view system, const Json& spec) {
  const Json& selector = Member(spec, "nodeSelector");
  for (const char* label : kSystemLabels) {
    if (!Member(selector, label).is_null() && TextOf(selector, label) != system) return false;
  }
  const Json& affinity = Member(Member(spec, "affinity"), "nodeAffinity");
  const Json& terms = Member(Member(affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
                             "nodeSelectorTerms");
  if (!terms.is_array() || terms.empty()) return true;
  return std::any_of(terms.begin(), terms.end(), [&](const Json& term) {
    const Json &labels = Member(term, "matchExpressions"), &fields = Member(term, "matchFields");
    const bool any = labels.is_array() && !labels.empty();
    if (!any) return fields.is_array() && !fields.empty();
    return std::all_of(labels.begin(), labels.end(),
                       [&](const Json& label) { return Fulfils(system, label); });
  });
}

// Most pods leave spec.os out.
bool RunsOnWindows(const Json& spec) {
  const std::string told = TextOf(Member(spec, "os"), "name");
  if (!told.empty()) return told == "windows";
  return MayRunOn("windows", spec) && !MayRunOn("linux", spec);
}

}  // namespace

PodInfo ParsePod(const Json& object) {
  PodInfo pod;
  try {
    const Json& metadata = ObjectOf(object, "metadata");
    pod.name = metadata.value("name", "");
    pod.uid = metadata.value("uid", "");
    pod.terminating = metadata.contains("deletionTimestamp");
    pod.labels = ReadMap(metadata, "labels");
    pod.annotations = ReadMap(metadata, "annotations");
    const auto label = pod.labels.find(kInjectLabel);
    pod.wants_injection = label != pod.labels.end() && label->second == "true";
    for (const Json& owner : ElementsOf(metadata, "ownerReferences")) {
      if (pod.owners.size() >= kMaxOwners) break;
      pod.owners.push_back({owner.value("kind", ""), owner.value("name", "")});
    }
    const Json& status = ObjectOf(object, "status");
    pod.ip = status.value("podIP", "");
    pod.phase = status.value("phase", "");
    pod.reason = status.value("reason", "");
    ReadStates(status, pod);
    ReadScheduling(status, Member(object, "spec"), pod);
    ReadContainers(ObjectOf(object, "spec"), pod);
    ReadTrainers(pod);
  } catch (const Json::exception&) {
    // The remaining fields stay empty. A pod without a port is reported as a pod without a sidecar.
  }
  return pod;
}

void KeepUsed(PodInfo& pod) {
  for (auto* values : {&pod.labels, &pod.annotations}) {
    std::erase_if(*values, [](const auto& entry) {
      return !IsRankKey(entry.first) && entry.first != kNotInjectedAnnotation &&
             entry.first != kTemplateHashLabel;
    });
  }
}

std::string WhyNeverInjected(const Json& object) {
  const Json& annotations = Member(Member(object, "metadata"), "annotations");
  if (annotations.is_object() && annotations.contains("kubernetes.io/config.mirror"))
    return "it is the mirror of a static pod";
  if (RunsOnWindows(Member(object, "spec"))) return "it runs on Windows";
  return "";
}

ContainerDevices DevicesOf(const Json& container) {
  ContainerDevices devices;
  const Json nothing = Json::object();
  const Json& resources = Member(container, "resources");
  const Json& limits = Member(resources, "limits");
  const Json& claims = Member(resources, "claims");
  devices.claims = claims.is_array() && !claims.empty();
  bool cuda = false;
  for (const auto& [resource, quantity] : (limits.is_object() ? limits : nothing).items()) {
    const Accelerator* accelerator = FindAccelerator(resource);
    if (accelerator == nullptr || !IsSome(quantity)) continue;
    devices.accelerator = true;
    devices.planes.framework |= accelerator->planes.framework;
    devices.planes.agent |= accelerator->planes.agent;
    cuda |= accelerator->cuda;
  }
  devices.maybe_cuda = cuda || devices.claims || !devices.accelerator;
  return devices;
}

}  // namespace strobe::kube
