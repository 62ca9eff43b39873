#include "operator/kube/pod_list.h"

#include <set>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/url_text.h"
#include "operator/core/names.h"
#include "operator/objects/json_members.h"
#include "operator/objects/pod_json.h"

namespace strobe::kube {
namespace {

// A pod may have more than a megabyte, and a page is in memory as a whole.
constexpr char kPage[] = "?limit=100";

bool WantsInjection(const Json& object) {
  return TextOf(Member(Member(object, "metadata"), "labels"), kInjectLabel) == "true";
}

// The namespaces whose own label asks for injection, of all or only of `ns`.
absl::StatusOr<std::set<std::string>> InjectedNamespaces(Client& client, const std::string& ns) {
  std::set<std::string> injected;
  if (!ns.empty()) {
    const absl::StatusOr<Json> one = client.Get(StrCat("/api/v1/namespaces/", ns));
    if (absl::IsNotFound(one.status())) return injected;
    RETURN_IF_ERROR(one.status());
    if (WantsInjection(*one)) injected.insert(ns);
    return injected;
  }
  std::string next;
  do {
    std::string path = StrCat("/api/v1/namespaces?limit=500&labelSelector=",
                              UrlEncode(StrCat(kInjectLabel, "=true")));
    if (!next.empty()) path += StrCat("&continue=", UrlEncode(next));
    ASSIGN_OR_RETURN(const Json list, client.GetItems(path, [&](const Json& item) {
      injected.insert(TextOf(Member(item, "metadata"), "name"));
    }));
    next = list.value("metadata", Json::object()).value("continue", "");
  } while (!next.empty());
  return injected;
}

}  // namespace

absl::Status ForEachPod(Client& client, const PodScope& scope,
                        const std::function<void(const Json&)>& pod) {
  const std::string base =
      scope.ns.empty() ? "/api/v1/pods" : StrCat("/api/v1/namespaces/", scope.ns, "/pods");
  std::string next;
  do {
    std::string path = base + (scope.cached ? "?resourceVersion=0" : kPage);
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
  const auto count = [&](const Json& item) {
    const PodInfo pod = ParsePod(item);
    if (!HasEnded(pod) && (pod.sidecar_port == 0 || !pod.damage.empty()))
      ++counts[item.at("metadata").value("namespace", "")];
  };
  RETURN_IF_ERROR(ForEachPod(client, {ns, StrCat(kInjectLabel, "=true")}, count));
  const absl::StatusOr<std::set<std::string>> injected = InjectedNamespaces(client, ns);
  if (absl::IsPermissionDenied(injected.status())) {
    // Roles that somebody wrote for an older operator do not allow it. What is known is told.
    LogWarning("pods that only the label of their namespace injects are not counted",
               {{"error", MessageOf(injected.status())}});
    return counts;
  }
  RETURN_IF_ERROR(injected.status());
  for (const std::string& space : *injected) {
    const PodScope scope{space, StrCat(kInjectLabel, " notin (true,false)")};
    RETURN_IF_ERROR(ForEachPod(client, scope, [&](const Json& item) {
      if (WhyNeverInjected(item).empty()) count(item);
    }));
  }
  return counts;
}

}  // namespace strobe::kube
