#include "operator/request/pod_list.h"

#include <set>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::request {
namespace {

bool WantsInjection(const kube::Json& object) {
  return kube::TextOf(kube::Member(kube::Member(object, "metadata"), "labels"),
                      kube::kInjectLabel) == "true";
}

// The namespaces whose own label asks for injection, of all or only of `ns`.
absl::StatusOr<std::set<std::string>> InjectedNamespaces(kube::Client& client,
                                                         const std::string& ns) {
  std::set<std::string> injected;
  if (!ns.empty()) {
    const absl::StatusOr<kube::Json> one = client.Get(StrCat("/api/v1/namespaces/", ns));
    if (absl::IsNotFound(one.status())) return injected;
    RETURN_IF_ERROR(one.status());
    if (WantsInjection(*one)) injected.insert(ns);
    return injected;
  }
  RETURN_IF_ERROR(client.GetPages(
      {.path = "/api/v1/namespaces",
       .selectors = StrCat("&labelSelector=", UrlEncode(StrCat(kube::kInjectLabel, "=true")))},
      [&](const kube::Json& item) {
        injected.insert(kube::TextOf(kube::Member(item, "metadata"), "name"));
      }));
  return injected;
}

}  // namespace

absl::Status ForEachPod(kube::Client& client, const PodScope& scope,
                        const std::function<void(const kube::Json&)>& pod) {
  kube::ListQuery query{
      .path = scope.ns.empty() ? "/api/v1/pods" : StrCat("/api/v1/namespaces/", scope.ns, "/pods"),
      .cached = scope.cached};
  if (!scope.selector.empty())
    query.selectors = StrCat("&labelSelector=", UrlEncode(scope.selector));
  return client.GetPages(query, pod);
}

absl::StatusOr<std::map<std::string, int>> CountUninjectedPods(kube::Client& client,
                                                               const std::string& ns) {
  std::map<std::string, int> counts;
  const auto count = [&](const kube::Json& item) {
    const job::PodInfo pod = job::ParsePod(item);
    if (!job::HasEnded(pod) && (pod.sidecar_port == 0 || !pod.damage.empty()))
      ++counts[item.at("metadata").value("namespace", "")];
  };
  RETURN_IF_ERROR(ForEachPod(client, {ns, StrCat(kube::kInjectLabel, "=true")}, count));
  const absl::StatusOr<std::set<std::string>> injected = InjectedNamespaces(client, ns);
  if (absl::IsPermissionDenied(injected.status())) {
    // Roles that somebody wrote for an older operator do not allow it. What is known is told.
    LogWarning("pods that only the label of their namespace injects are not counted",
               {{"error", MessageOf(injected.status())}});
    return counts;
  }
  RETURN_IF_ERROR(injected.status());
  for (const std::string& space : *injected) {
    const PodScope scope{space, StrCat(kube::kInjectLabel, " notin (true,false)")};
    RETURN_IF_ERROR(ForEachPod(client, scope, [&](const kube::Json& item) {
      if (job::WhyNeverInjected(item).empty()) count(item);
    }));
  }
  return counts;
}

}  // namespace strobe::request
