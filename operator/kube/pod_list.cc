#include "operator/kube/pod_list.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/url_text.h"
#include "operator/core/names.h"
#include "operator/objects/pod_json.h"

namespace strobe::kube {

absl::Status ForEachPod(Client& client, const PodScope& scope,
                        const std::function<void(const Json&)>& pod) {
  const std::string base =
      scope.ns.empty() ? "/api/v1/pods" : StrCat("/api/v1/namespaces/", scope.ns, "/pods");
  std::string next;
  do {
    std::string path = base + (scope.cached ? "?resourceVersion=0" : "?limit=500");
    if (!scope.selector.empty()) path += StrCat("&labelSelector=", UrlEncode(scope.selector));
    if (!next.empty()) path += StrCat("&continue=", UrlEncode(next));
    ASSIGN_OR_RETURN(const Json list, client.GetItems(path, pod));
    next = list.value("metadata", Json::object()).value("continue", "");
  } while (!next.empty());
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, int>> CountUninjectedPods(Client& client,
                                                               const std::string& ns) {
  std::map<std::string, int> counts;
  RETURN_IF_ERROR(ForEachPod(client, {ns, StrCat(kInjectLabel, "=true")}, [&](const Json& item) {
    const PodInfo pod = ParsePod(item);
    const bool ended = pod.phase == "Succeeded" || pod.phase == "Failed";
    if (!ended && (pod.sidecar_port == 0 || !pod.damage.empty()))
      ++counts[item.at("metadata").value("namespace", "")];
  }));
  return counts;
}

}  // namespace strobe::kube
