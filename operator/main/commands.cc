#include "operator/main/commands.h"

#include <filesystem>
#include <functional>
#include <iostream>
#include <thread>

#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/kube/client.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/objects/request.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

struct Connection {
  SystemClock clock;
  kube::Credentials credentials;
  std::unique_ptr<kube::Client> client;
};

absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& kubeconfig) {
  auto connection = std::make_unique<Connection>();
  ASSIGN_OR_RETURN(connection->credentials, kube::FindCredentials(kubeconfig));
  kube::InitCpprest();
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeCpprestTransport(connection->clock, connection->credentials));
  connection->client = std::make_unique<kube::Client>(connection->clock, std::move(transport));
  return connection;
}

// Calls `visit` for every request that has our finalizer, also after it failed for one of them.
// Returns the first failure, but not that a request has changed or is gone: the caller's next look
// shows that.
absl::Status ForEachHeld(kube::Client& client, const std::string& ns,
                         const std::function<absl::Status(const objects::ProfileRequest&)>& visit) {
  std::vector<objects::ProfileRequest> held;
  const absl::Status listed =
      client.GetPages({.path = objects::RequestsPath(ns)}, [&](const kube::Json& item) {
        absl::StatusOr<objects::ProfileRequest> request = objects::ParseRequest(item);
        if (request.ok() && objects::HasFinalizer(*request)) held.push_back(*std::move(request));
      });
  if (absl::IsNotFound(listed)) return absl::OkStatus();  // The CRD is not installed.
  RETURN_IF_ERROR(listed);
  absl::Status failed;
  for (const objects::ProfileRequest& request : held) {
    const absl::Status visited = visit(request);
    if (!absl::IsNotFound(visited) && !absl::IsAborted(visited)) failed.Update(visited);
  }
  return failed;
}

}  // namespace

absl::Status ApplyCrds(const std::string& kubeconfig, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection, Connect(kubeconfig));
  std::error_code error;
  const fs::path place =
      dir.empty() ? fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "crds"
                  : fs::path(dir);
  int applied = 0;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    if (entry.path().extension() != ".yaml") continue;
    ASSIGN_OR_RETURN(const std::string yaml, ReadTextFile(entry.path()));
    const std::string name = entry.path().stem().native() + ".strobe.dev";
    RETURN_IF_ERROR(
        connection->client
            ->ApplyYaml(StrCat("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", name),
                        yaml)
            .status());
    std::cout << "applied " << name << "\n";
    ++applied;
  }
  if (applied == 0) return absl::NotFoundError(StrCat("no CRDs in ", place.native()));
  return absl::OkStatus();
}

absl::StatusOr<int> ReleaseRequests(kube::Client& client, const std::string& ns) {
  int released = 0;
  RETURN_IF_ERROR(
      ForEachHeld(client, ns, [&](const objects::ProfileRequest& request) -> absl::Status {
        ++released;
        return client
            .MergePatch(objects::RequestPath(request.ns, request.name),
                        {{"metadata",
                          {{"finalizers", objects::WithoutFinalizer(request)},
                           {"resourceVersion", request.resource_version}}}})
            .status();
      }));
  return released;
}

// Cancels all captures in progress and returns how many there were.
absl::StatusOr<int> CancelRequests(kube::Client& client, const std::string& ns) {
  int cancelled = 0;
  RETURN_IF_ERROR(
      ForEachHeld(client, ns, [&](const objects::ProfileRequest& request) -> absl::Status {
        if (objects::IsFinished(request.status)) return absl::OkStatus();
        ++cancelled;
        return client
            .MergePatch(objects::RequestPath(request.ns, request.name),
                        {{"spec", {{"cancel", true}}}})
            .status();
      }));
  return cancelled;
}

void CancelFirst(kube::Client& client, const std::string& ns) {
  constexpr int kMaxLooks = 20;
  for (int look = 0; look < kMaxLooks; ++look) {
    const absl::StatusOr<int> left = CancelRequests(client, ns);
    if (!left.ok()) {
      std::cout << "captures could not be cancelled: " << MessageOf(left.status()) << "\n";
      return;
    }
    if (*left == 0) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  std::cout << "some captures are still under way\n";
}

absl::Status ReleaseRequests(const std::string& kubeconfig, const std::string& ns, bool cancel) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection, Connect(kubeconfig));
  if (cancel) {
    CancelFirst(*connection->client, ns);
    return absl::OkStatus();
  }
  constexpr Nanos kLookAgain = std::chrono::seconds(2);
  constexpr int kMaxLooks = 30;
  int all = 0;
  // An operator that is just ending may still add its finalizer to a request.
  for (int looks = 0, clean = 0; clean < 2 && looks < kMaxLooks; ++looks) {
    ASSIGN_OR_RETURN(const int released, ReleaseRequests(*connection->client, ns));
    all += released;
    clean = released == 0 ? clean + 1 : 0;
    if (clean < 2) std::this_thread::sleep_for(kLookAgain);
  }
  std::cout << "removed the finalizer from " << all << " ProfileRequests\n";
  return absl::OkStatus();
}

absl::Status CheckInstallation(const std::string& kubeconfig) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection, Connect(kubeconfig));
  const std::string ns =
      connection->credentials.ns.empty() ? "default" : connection->credentials.ns;
  const absl::Status asked =
      connection->client
          ->Create(objects::RequestsPath(ns) + "?dryRun=All",
                   {{"apiVersion", kube::kApiVersion},
                    {"kind", kube::kRequestKind},
                    {"metadata", {{"generateName", "strobe-check-"}}},
                    {"spec", {{"target", {{"pods", {"nobody"}}}}, {"logdir", "/nowhere"}}}})
          .status();
  if (asked.ok()) {
    std::cout << "a capture was admitted (dry run): either you may profile in " << ns
              << ", or the webhooks are not installed\n";
    return absl::OkStatus();
  }
  if (absl::IsPermissionDenied(asked) && Contains(MessageOf(asked), "strobe.dev\" denied")) {
    std::cout << "the webhooks answer: " << MessageOf(asked) << "\n";
    return absl::OkStatus();
  }
  return absl::Status(asked.code(), ToAbsl("the webhooks do not answer: " + MessageOf(asked)));
}

}  // namespace strobe
