// `kubectl strobe ls, get, cancel, rm, logs and cp`: what is done with requests that exist.
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/report_table.h"
#include "cli/kube/kube_commands.h"
#include "cli/kube/kubectl.h"
#include "cli/kube/request_view.h"
#include "cli/kube/request_watch.h"
#include "cli/runs/logdir_commands.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::cli {
namespace {

using cluster::Kubectl;

// Prints what kubectl prints for the arguments.
absl::Status Print(Kubectl& kubectl, std::vector<std::string> arguments) {
  ASSIGN_OR_RETURN(const std::string printed, cluster::Output(kubectl, arguments));
  std::cout << printed;
  return absl::OkStatus();
}

// Does the work for each name, also after one failed, and returns the worst exit code.
template <typename Work>
int ForEachName(const KubeNamesFlags& flags, const Work& work) {
  cluster::KubectlProcess kubectl(flags.connection.Arguments());
  int code = kExitOk;
  for (const std::string& name : flags.names) {
    const absl::StatusOr<int> done = work(kubectl, name);
    code = std::max(code, done.ok() ? *done : Complain(done.status()));
  }
  return code;
}

// The pods of the workers that did not end Ok: "llm-0" of "llm-0/3". Workers without a pod have
// names in parentheses.
std::vector<std::string> PodsOf(const objects::RequestStatus& status) {
  std::vector<std::string> pods;
  for (const objects::StatusOutcome& outcome : status.outcomes) {
    const std::string pod = outcome.pod.substr(0, outcome.pod.find('/'));
    if (!pod.starts_with('(') && std::find(pods.begin(), pods.end(), pod) == pods.end())
      pods.push_back(pod);
  }
  return pods;
}

absl::StatusOr<int> ShowLogs(const KubeNamesFlags& flags, Kubectl& kubectl,
                             const std::string& name) {
  ASSIGN_OR_RETURN(const objects::ProfileRequest request, cluster::GetRequest(kubectl, name));
  std::cout << name << ": " << cluster::ResultText(request, SystemClock().WallNow()) << "\n";
  // The UID, because a request of the same name may have been deleted.
  RETURN_IF_ERROR(
      Print(kubectl, {"get", "events", "--field-selector",
                      StrCat("involvedObject.uid=", request.uid), "--sort-by=.lastTimestamp"}));
  int code = kExitOk;
  for (const std::string& pod : PodsOf(request.status)) {
    std::cout << "\nsidecar of " << pod << "\n" << std::flush;
    const absl::Status shown =
        Print(kubectl, {"logs", pod, "--container=strobe-sidecar", StrCat("--tail=", flags.tail)});
    if (!shown.ok()) code = Complain(shown);
  }
  return code;
}

}  // namespace

int RunKubeList(const KubeListFlags& flags) {
  cluster::KubectlProcess kubectl(flags.connection.Arguments());
  if (flags.output != "table") {
    std::vector<std::string> arguments = {"get", kube::kRequestsDefinition,
                                          StrCat("--output=", flags.output)};
    if (flags.all_namespaces) arguments.emplace_back("--all-namespaces");
    const absl::Status printed = Print(kubectl, arguments);
    return printed.ok() ? kExitOk : Complain(printed);
  }
  const absl::StatusOr<std::vector<objects::ProfileRequest>> requests =
      cluster::ListRequests(kubectl, flags.all_namespaces);
  if (!requests.ok()) return Complain(requests.status());
  if (requests->empty())
    std::cerr << "no requests\n";
  else
    std::cout << AlignRows(
        cluster::RequestRows(*requests, flags.all_namespaces, SystemClock().WallNow()));
  return kExitOk;
}

int RunKubeGet(const KubeNamesFlags& flags) {
  return ForEachName(flags, [&](Kubectl& kubectl, const std::string& name) -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const objects::ProfileRequest request, cluster::GetRequest(kubectl, name));
    if (flags.output != "table") {
      RETURN_IF_ERROR(Print(
          kubectl, {"get", kube::kRequestsDefinition, name, StrCat("--output=", flags.output)}));
    } else {
      std::cout << name << ": " << cluster::ResultText(request, SystemClock().WallNow()) << "\n"
                << cluster::VerdictText(request);
    }
    return cluster::Succeeded(request) ? kExitOk : kExitFailed;
  });
}

int RunKubeCancel(const KubeNamesFlags& flags) {
  return ForEachName(flags, [](Kubectl& kubectl, const std::string& name) -> absl::StatusOr<int> {
    RETURN_IF_ERROR(cluster::CancelRequest(kubectl, name));
    std::cout << kube::kRequestsDefinition << "/" << name << " cancelled\n";
    return kExitOk;
  });
}

int RunKubeRm(const KubeNamesFlags& flags) {
  return ForEachName(flags, [](Kubectl& kubectl, const std::string& name) -> absl::StatusOr<int> {
    // A user who may delete a request cannot always read it.
    const absl::StatusOr<objects::ProfileRequest> request = cluster::GetRequest(kubectl, name);
    if (absl::IsNotFound(request.status())) return request.status();
    RETURN_IF_ERROR(Print(kubectl, {"delete", kube::kRequestsDefinition, name}));
    if (!request.ok()) return kExitOk;
    if (const std::string run = cluster::RunAfterDeletion(*request); !run.empty())
      std::cerr << run << "\n";
    return kExitOk;
  });
}

int RunKubeLogs(const KubeNamesFlags& flags) {
  return ForEachName(flags, [&](Kubectl& kubectl, const std::string& name) {
    return ShowLogs(flags, kubectl, name);
  });
}

int RunKubeCp(const KubeNamesFlags& flags) {
  cluster::KubectlProcess kubectl(flags.connection.Arguments());
  const absl::StatusOr<objects::ProfileRequest> request = cluster::GetRequest(kubectl, flags.name);
  if (!request.ok()) return Complain(request.status());
  if (request->status.run.empty()) {
    return Complain(absl::FailedPreconditionError(StrCat(
        flags.name, " has no run: ", cluster::ResultText(*request, SystemClock().WallNow()))));
  }
  CpFlags copy;
  copy.from = request->status.run;
  copy.to = flags.to;
  copy.storage_config = flags.storage_config;
  copy.quiet = flags.quiet;
  return RunCp(copy);
}

}  // namespace strobe::cli
