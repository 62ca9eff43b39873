#include "operator/kube/pod_json.h"

#include <algorithm>

#include "operator/kube/json_fields.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

std::map<std::string, std::string> ReadMap(const Json& object, const char* field) {
  std::map<std::string, std::string> values;
  const Json map = object.value(field, Json::object());
  for (const auto& [key, value] : map.items()) {
    if (value.is_string()) values[key] = value.get<std::string>();
  }
  return values;
}

int PortOf(const Json& container) {
  for (const Json& port : container.value("ports", Json::array())) {
    if (port.value("name", "") == kSidecarPort) return port.value("containerPort", 0);
  }
  return 0;
}

// Extended resources whose trainers should show up as /device: planes.
bool HasAccelerator(const Json& container) {
  const Json limits = container.value("resources", Json::object()).value("limits", Json::object());
  for (const char* resource : {"nvidia.com/gpu", "google.com/tpu", "amd.com/gpu"}) {
    if (limits.contains(resource)) return true;
  }
  // Slices of a GPU, such as nvidia.com/mig-1g.10gb.
  return std::any_of(limits.items().begin(), limits.items().end(),
                     [](const auto& limit) { return limit.key().starts_with("nvidia.com/mig-"); });
}

void ReadStates(const Json& status, PodInfo& pod) {
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& entry : status.value(list, Json::array())) {
      PodInfo::ContainerState& state = pod.states.emplace_back();
      state.name = entry.value("name", "");
      state.restarts = entry.value("restartCount", 0);
      const Json now = entry.value("state", Json::object());
      if (now.contains("waiting")) state.waiting = now["waiting"].value("reason", "");
      // One that has been started again ended in its last state.
      for (const Json& ended : {entry.value("lastState", Json::object()), now}) {
        if (!ended.contains("terminated")) continue;
        const Json& end = ended["terminated"];
        state.ended = end.value("reason", "");
        state.exit_code = end.value("exitCode", 0);
        state.ended_at = ReadTime(end, "finishedAt");
      }
    }
  }
}

void ReadContainers(const Json& spec, PodInfo& pod) {
  // Injected as a native sidecar, which is an init container; a plain container does too.
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : spec.value(list, Json::array())) {
      if (container.value("name", "") != kSidecarContainer || pod.sidecar_port != 0) continue;
      pod.sidecar_port = PortOf(container);
      // Such a one never ends, so that nothing after it ever begins.
      if (std::string_view(list) == "initContainers" &&
          container.value("restartPolicy", "") != "Always") {
        pod.damage =
            "the container strobe-sidecar has lost its restartPolicy: Always, probably to another "
            "webhook, and holds the pod in its init phase";
      }
    }
  }
  for (const Json& container : spec.value("containers", Json::array())) {
    if (container.value("name", "") == kSidecarContainer) continue;
    pod.accelerator = pod.accelerator || HasAccelerator(container);
    if (!pod.container.empty()) continue;
    pod.container = container.value("name", "");
    for (const Json& variable : container.value("env", Json::array())) {
      if (variable.contains("value") && variable["value"].is_string())
        pod.env[variable.value("name", "")] = variable["value"].get<std::string>();
    }
  }
}

}  // namespace

PodInfo ParsePod(const Json& object) {
  PodInfo pod;
  try {
    const Json metadata = object.value("metadata", Json::object());
    pod.name = metadata.value("name", "");
    pod.uid = metadata.value("uid", "");
    pod.terminating = metadata.contains("deletionTimestamp");
    pod.labels = ReadMap(metadata, "labels");
    pod.annotations = ReadMap(metadata, "annotations");
    const auto label = pod.labels.find(kInjectLabel);
    pod.wants_injection = label != pod.labels.end() && label->second == "true";
    for (const Json& owner : metadata.value("ownerReferences", Json::array())) {
      pod.owners.push_back({owner.value("kind", ""), owner.value("name", "")});
    }
    const Json status = object.value("status", Json::object());
    pod.ip = status.value("podIP", "");
    pod.phase = status.value("phase", "");
    pod.reason = status.value("reason", "");
    ReadStates(status, pod);
    ReadContainers(object.value("spec", Json::object()), pod);
  } catch (const Json::exception&) {
    // The rest stays empty; a pod without a port is reported as one without a sidecar.
  }
  return pod;
}

}  // namespace strobe::kube
