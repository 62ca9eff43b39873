#include "operator/main/tasks.h"

#include <filesystem>
#include <iostream>

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/base/text_file.h"
#include "operator/kube/client.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/request_json.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::Status ApplyCrds(const std::string& kubeconfig, const std::string& dir) {
  const SystemClock clock;
  ASSIGN_OR_RETURN(const kube::Credentials credentials, kube::FindCredentials(kubeconfig));
  kube::InitCpprest();
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeCpprestTransport(clock, credentials));
  kube::Client client(clock, transport);
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
        client
            .ApplyYaml(StrCat("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", name),
                       yaml)
            .status());
    std::cout << "applied " << name << "\n";
    ++applied;
  }
  if (applied == 0) return absl::NotFoundError(StrCat("no CRDs in ", place.native()));
  return absl::OkStatus();
}

absl::Status CheckInstallation(const std::string& kubeconfig) {
  const SystemClock clock;
  ASSIGN_OR_RETURN(const kube::Credentials credentials, kube::FindCredentials(kubeconfig));
  kube::InitCpprest();
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeCpprestTransport(clock, credentials));
  kube::Client client(clock, transport);
  const std::string space = credentials.space.empty() ? "default" : credentials.space;
  const absl::Status asked =
      client
          .Create(kube::RequestsPath(space) + "?dryRun=All",
                  {{"apiVersion", "strobe.dev/v1alpha1"},
                   {"kind", "ProfileRequest"},
                   {"metadata", {{"generateName", "strobe-check-"}}},
                   {"spec", {{"target", {{"pods", {"nobody"}}}}, {"logdir", "/nowhere"}}}})
          .status();
  if (asked.ok()) {
    std::cout << "a capture was admitted (dry run): either you may profile in " << space
              << ", or the webhooks are not installed\n";
    return absl::OkStatus();
  }
  if (absl::IsPermissionDenied(asked) && Contains(Words(asked), "strobe.dev\" denied")) {
    std::cout << "the webhooks answer: " << Words(asked) << "\n";
    return absl::OkStatus();
  }
  return absl::Status(asked.code(), ToAbsl("the webhooks do not answer: " + Words(asked)));
}

}  // namespace strobe
