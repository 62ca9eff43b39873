#include "operator/job/pod_containers.h"

#include "operator/base/json_members.h"
#include "operator/base/names.h"

namespace strobe::job {

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

}  // namespace strobe::job
