#include "operator/request/request_cluster.h"

#include <set>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"
#include "operator/job/shape.h"
#include "operator/objects/request.h"
#include "operator/request/pod_list.h"

namespace strobe::request {
namespace {

// What the pods of one look may take: twice what 10,000 usual ones do. Each thread may look.
constexpr std::size_t kMaxLookBytes = std::size_t{48} << 20;

// About how much memory the pod takes.
std::size_t MemoryOf(const job::PodInfo& pod) {
  constexpr std::size_t kEntry = 128;  // A node of std::map with two short texts.
  std::size_t bytes =
      sizeof(job::PodInfo) + pod.states.size() * sizeof(job::PodInfo::ContainerState);
  const auto add = [&bytes](const std::map<std::string, std::string>& entries) {
    for (const auto& [key, value] : entries) bytes += kEntry + key.size() + value.size();
  };
  add(pod.labels);
  add(pod.annotations);
  for (const job::ContainerInfo& container : pod.containers) {
    bytes += sizeof(job::ContainerInfo);
    add(container.env);
  }
  return bytes;
}

}  // namespace

RequestCluster::RequestCluster(kube::Client& client, const kube::ObjectCache& requests,
                               kube::EventRecorder& events)
    : client_(client), events_(events), requests_(requests) {}

absl::StatusOr<objects::ProfileRequest> RequestCluster::GetRequest(const std::string& key) {
  const kube::Object object = requests_.Get(key);
  if (object == nullptr) return absl::NotFoundError(StrCat("no ProfileRequest ", key));
  return objects::ParseRequest(*object);
}

absl::StatusOr<std::vector<job::PodInfo>> RequestCluster::ListPods(const std::string& ns,
                                                                   const job::PodQuery& query) {
  std::vector<job::PodInfo> pods;
  if (query.nothing) return pods;
  std::size_t bytes = 0;
  const auto add = [&](const kube::Json& item) {
    if (bytes > kMaxLookBytes) return;
    pods.push_back(job::ParsePod(item));
    job::KeepUsed(pods.back());
    bytes += MemoryOf(pods.back());
  };
  // A few hundred pods are cheaper to get one by one than by listing a namespace, which may have
  // many thousands.
  constexpr std::size_t kFewNames = 256;
  if (!query.names.empty() && query.names.size() <= kFewNames) {
    for (const std::string& name : query.names) {
      const absl::StatusOr<kube::Json> pod =
          client_.Get(StrCat("/api/v1/namespaces/", ns, "/pods/", name));
      if (absl::IsNotFound(pod.status())) continue;
      RETURN_IF_ERROR(pod.status());
      add(*pod);
    }
  } else {
    const std::set<std::string> names(query.names.begin(), query.names.end());
    RETURN_IF_ERROR(ForEachPod(
        client_, {.ns = ns, .selector = query.selector, .cached = true},
        [&](const kube::Json& item) {
          if (names.empty() || names.contains(kube::TextOf(kube::Member(item, "metadata"), "name")))
            add(item);
        }));
  }
  if (bytes <= kMaxLookBytes) return pods;
  return absl::InvalidArgumentError(StrCat("the pods of the target take more than ",
                                           kMaxLookBytes >> 20,
                                           " MiB of the operator's memory; choose fewer"));
}

absl::StatusOr<job::Shape> RequestCluster::DescribeJob(const std::string& ns,
                                                       const kube::JobRef& job) {
  return job::DescribeJob(ns, job, [this](const std::string& path) { return client_.Get(path); });
}

absl::Status RequestCluster::SetFinalizers(const objects::ProfileRequest& request,
                                           const std::vector<std::string>& finalizers) {
  const kube::Json patch = {
      {"metadata", {{"finalizers", finalizers}, {"resourceVersion", request.resource_version}}}};
  absl::StatusOr<kube::Json> patched =
      client_.MergePatch(objects::RequestPath(request.ns, request.name), patch);
  // Removing the last finalizer deletes the object.
  if (absl::IsNotFound(patched.status()) && request.deleting) return absl::OkStatus();
  RETURN_IF_ERROR(patched.status());
  requests_.Remember(request.resource_version, *std::move(patched));
  return absl::OkStatus();
}

absl::Status RequestCluster::WriteStatus(const objects::ProfileRequest& request,
                                         const objects::RequestStatus& status) {
  ASSIGN_OR_RETURN(kube::Json written,
                   client_.Apply(objects::RequestPath(request.ns, request.name) + "/status",
                                 objects::StatusToJson(request, status)));
  requests_.Remember(request.resource_version, std::move(written));
  return absl::OkStatus();
}

absl::Status RequestCluster::DeleteRequest(const objects::ProfileRequest& request) {
  const absl::Status status = client_.Delete(objects::RequestPath(request.ns, request.name),
                                             {{"preconditions", {{"uid", request.uid}}}});
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void RequestCluster::RecordEvent(const objects::ProfileRequest& request, bool warning,
                                 const std::string& reason, const std::string& action,
                                 const std::string& note) {
  events_.Record({{kube::kApiVersion, kube::kRequestKind, request.ns, request.name, request.uid},
                  warning,
                  reason,
                  action,
                  note});
}

}  // namespace strobe::request
