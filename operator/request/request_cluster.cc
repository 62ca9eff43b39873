#include "operator/request/request_cluster.h"

#include <set>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/json_members.h"
#include "operator/base/names.h"
#include "operator/job/job_json.h"
#include "operator/job/pod_json.h"
#include "operator/objects/request_json.h"
#include "operator/request/pod_list.h"

namespace strobe::kube {
namespace {

// What the pods of one look may take: twice what 10,000 usual ones do. Each thread may look.
constexpr std::size_t kMaxLookBytes = std::size_t{48} << 20;

// About how much memory the pod takes.
std::size_t MemoryOf(const PodInfo& pod) {
  constexpr std::size_t kEntry = 128;  // A node of std::map with two short texts.
  std::size_t bytes = sizeof(PodInfo) + pod.states.size() * sizeof(PodInfo::ContainerState);
  const auto add = [&bytes](const std::map<std::string, std::string>& entries) {
    for (const auto& [key, value] : entries) bytes += kEntry + key.size() + value.size();
  };
  add(pod.labels);
  add(pod.annotations);
  for (const ContainerInfo& container : pod.containers) {
    bytes += sizeof(ContainerInfo);
    add(container.env);
  }
  return bytes;
}

}  // namespace

RequestCluster::RequestCluster(Client& client, const ObjectCache& requests, EventRecorder& events)
    : client_(client), events_(events), requests_(requests) {}

absl::StatusOr<ProfileRequest> RequestCluster::GetRequest(const std::string& key) {
  const Object object = requests_.Get(key);
  if (object == nullptr) return absl::NotFoundError(StrCat("no ProfileRequest ", key));
  return ParseRequest(*object);
}

absl::StatusOr<std::vector<PodInfo>> RequestCluster::ListPods(const std::string& ns,
                                                              const PodQuery& query) {
  std::vector<PodInfo> pods;
  if (query.nothing) return pods;
  std::size_t bytes = 0;
  const auto add = [&](const Json& item) {
    if (bytes > kMaxLookBytes) return;
    pods.push_back(ParsePod(item));
    KeepUsed(pods.back());
    bytes += MemoryOf(pods.back());
  };
  // A few hundred pods are cheaper to get one by one than by listing a namespace, which may have
  // many thousands.
  constexpr std::size_t kFewNames = 256;
  if (!query.names.empty() && query.names.size() <= kFewNames) {
    for (const std::string& name : query.names) {
      const absl::StatusOr<Json> pod =
          client_.Get(StrCat("/api/v1/namespaces/", ns, "/pods/", name));
      if (absl::IsNotFound(pod.status())) continue;
      RETURN_IF_ERROR(pod.status());
      add(*pod);
    }
  } else {
    const std::set<std::string> names(query.names.begin(), query.names.end());
    RETURN_IF_ERROR(ForEachPod(
        client_, {.ns = ns, .selector = query.selector, .cached = true}, [&](const Json& item) {
          if (names.empty() || names.contains(TextOf(Member(item, "metadata"), "name"))) add(item);
        }));
  }
  if (bytes <= kMaxLookBytes) return pods;
  return absl::InvalidArgumentError(StrCat("the pods of the target take more than ",
                                           kMaxLookBytes >> 20,
                                           " MiB of the operator's memory; choose fewer"));
}

absl::StatusOr<JobShape> RequestCluster::DescribeJob(const std::string& ns, const JobRef& job) {
  return kube::DescribeJob(ns, job, [this](const std::string& path) { return client_.Get(path); });
}

absl::Status RequestCluster::SetFinalizers(const ProfileRequest& request,
                                           const std::vector<std::string>& finalizers) {
  const Json patch = {
      {"metadata", {{"finalizers", finalizers}, {"resourceVersion", request.resource_version}}}};
  absl::StatusOr<Json> patched = client_.MergePatch(RequestPath(request.ns, request.name), patch);
  // Removing the last finalizer deletes the object.
  if (absl::IsNotFound(patched.status()) && request.deleting) return absl::OkStatus();
  RETURN_IF_ERROR(patched.status());
  requests_.Remember(request.resource_version, *std::move(patched));
  return absl::OkStatus();
}

absl::Status RequestCluster::WriteStatus(const ProfileRequest& request,
                                         const RequestStatus& status) {
  ASSIGN_OR_RETURN(Json written, client_.Apply(RequestPath(request.ns, request.name) + "/status",
                                               StatusToJson(request, status)));
  requests_.Remember(request.resource_version, std::move(written));
  return absl::OkStatus();
}

absl::Status RequestCluster::DeleteRequest(const ProfileRequest& request) {
  const absl::Status status = client_.Delete(RequestPath(request.ns, request.name),
                                             {{"preconditions", {{"uid", request.uid}}}});
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void RequestCluster::RecordEvent(const ProfileRequest& request, bool warning,
                                 const std::string& reason, const std::string& action,
                                 const std::string& note) {
  events_.Record({{kApiVersion, kRequestKind, request.ns, request.name, request.uid},
                  warning,
                  reason,
                  action,
                  note});
}

}  // namespace strobe::kube
