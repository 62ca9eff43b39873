// `kubectl strobe capture`: creates a ProfileRequest and follows it to its end.
#include <algorithm>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/base/progress.h"
#include "cli/kube/kube_commands.h"
#include "cli/kube/kube_session.h"
#include "cli/kube/kubectl.h"
#include "cli/kube/request_view.h"
#include "cli/kube/request_watch.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::cli {
namespace {

constexpr int kExitInterrupted = 130;  // As shells tell that Ctrl-C ended a command.

// Creates the request and prints what kubectl prints.
absl::Status CreateOnly(const KubeCaptureFlags& flags, const nlohmann::ordered_json& object,
                        cluster::Kubectl& kubectl) {
  std::vector<std::string> arguments;
  if (!flags.dry_run.empty()) arguments.push_back(StrCat("--dry-run=", flags.dry_run));
  if (!flags.output.empty()) arguments.push_back(StrCat("--output=", flags.output));
  ASSIGN_OR_RETURN(const std::string printed, CreateObject(kubectl, object, arguments));
  std::cout << printed;
  return absl::OkStatus();
}

// Names the request here and not at the API server: Ctrl-C also ends a kubectl that waits for the
// answer, and then the request must be found by its name to be cancelled.
std::string SetName(nlohmann::ordered_json& request) {
  nlohmann::ordered_json& metadata = request["metadata"];
  if (!metadata.contains("name"))
    metadata["name"] = metadata.value("generateName", "capture-") + RandomLetters(5);
  metadata.erase("generateName");
  return metadata.value("name", "");
}

// Cancels a request whose creation was interrupted. Always an error.
absl::Status CancelUnanswered(const std::string& name, cluster::Kubectl& kubectl) {
  const absl::Status cancelled = cluster::CancelRequest(kubectl, name);
  if (absl::IsNotFound(cancelled))
    return absl::CancelledError("interrupted before the request was created");
  if (cancelled.ok())
    return absl::CancelledError(StrCat("interrupted; the request ", name, " is cancelled"));
  return {cancelled.code(), ToAbsl(StrCat("interrupted; the request ", name,
                                          " may have been created: ", MessageOf(cancelled)))};
}

// Follows the request until it is finished, and returns it. The user's first interrupt cancels it,
// the second one ends the wait: Aborted.
absl::StatusOr<objects::ProfileRequest> AwaitEnd(const objects::ProfileRequest& created,
                                                 const Interrupts& interrupts,
                                                 ProgressText& progress,
                                                 cluster::Kubectl& kubectl) {
  bool cancelled = false, left = false;
  absl::Status not_cancelled;
  objects::ProfileRequest last = created;
  const auto look = [&] {
    left = interrupts.count() >= Interrupts::kLeave;
    if (interrupts.count() > 0 && !cancelled) {
      cancelled = true;
      progress.Clear();
      std::cerr << "cancelling " << created.name << "; press Ctrl-C again to stop waiting for it\n";
      not_cancelled = cluster::CancelRequest(kubectl, created.name);
    }
    return !left && not_cancelled.ok();
  };
  cluster::WatchHooks hooks;
  hooks.seen = [&](const objects::ProfileRequest& request) {
    last = request;
    progress.Show(cluster::ProgressText(request, SystemClock().WallNow()));
    return !objects::IsFinished(request.status);
  };
  hooks.tick = look;
  hooks.pause = [&] {
    PauseOneSecond(interrupts, cancelled ? 1 : 0);
    return look();
  };
  const absl::Status watched = cluster::WatchRequest(kubectl, created.name, created.uid, hooks);
  progress.Clear();
  if (!not_cancelled.ok()) return not_cancelled;
  RETURN_IF_ERROR(watched);
  if (left)
    return absl::AbortedError(
        StrCat("the capture continues; see kubectl strobe get ", created.name));
  return last;
}

// Whether the API server has answered that it created nothing. The name may then be that of
// somebody else's request.
bool WasRefused(const absl::Status& created) {
  return absl::IsAlreadyExists(created) || absl::IsInvalidArgument(created) ||
         absl::IsPermissionDenied(created) || absl::IsUnauthenticated(created) ||
         absl::IsNotFound(created) || absl::IsFailedPrecondition(created);
}

absl::StatusOr<objects::ProfileRequest> CreateAndFollow(const KubeCaptureFlags& flags,
                                                        nlohmann::ordered_json object,
                                                        cluster::Kubectl& kubectl) {
  const std::string name = SetName(object);
  const Interrupts interrupts;
  const absl::StatusOr<std::string> text = CreateObject(kubectl, object, {"--output=json"});
  if (!text.ok() && interrupts.count() > 0 && !WasRefused(text.status()))
    return CancelUnanswered(name, kubectl);
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const objects::ProfileRequest created, cluster::ParseRequestText(*text));
  if (!flags.quiet) std::cerr << kube::kRequestsDefinition << "/" << created.name << " created\n";
  ProgressText progress(flags.quiet);
  ASSIGN_OR_RETURN(const objects::ProfileRequest ended,
                   AwaitEnd(created, interrupts, progress, kubectl));
  if (flags.output.empty()) {
    std::cout << cluster::ResultText(ended, SystemClock().WallNow()) << "\n"
              << cluster::VerdictText(ended);
  } else {
    ASSIGN_OR_RETURN(const std::string printed,
                     cluster::Output(kubectl, {"get", kube::kRequestsDefinition, ended.name,
                                               StrCat("--output=", flags.output)}));
    std::cout << printed;
  }
  return ended;
}

absl::StatusOr<int> Capture(const KubeCaptureFlags& flags) {
  cluster::KubectlProcess reader(flags.connection.Arguments());
  ASSIGN_OR_RETURN(const nlohmann::ordered_json base, ReadFrom(reader, flags.from));
  const ConnectionFlags connection = InNamespaceOf(base, flags.connection);
  cluster::KubectlProcess kubectl(connection.Arguments());
  ASSIGN_OR_RETURN(const nlohmann::ordered_json request, cluster::RequestOf(flags.request, base));
  const bool dry = !flags.dry_run.empty() && flags.dry_run != "none";
  if (dry || !flags.waits()) {
    RETURN_IF_ERROR(CreateOnly(flags, request, kubectl));
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const objects::ProfileRequest ended, CreateAndFollow(flags, request, kubectl));
  const int code = cluster::Succeeded(ended) ? kExitOk : kExitFailed;
  if (!flags.open || ended.status.run.empty()) return code;
  const int shown =
      RunKubeView({.connection = connection, .what = ended.name, .quiet = flags.quiet});
  return std::max(code, shown);
}

}  // namespace

int RunKubeCapture(const KubeCaptureFlags& flags) {
  const absl::StatusOr<int> code = Capture(flags);
  if (code.ok()) return *code;
  const int failed = Complain(code.status());
  return absl::IsAborted(code.status()) ? kExitInterrupted : failed;
}

}  // namespace strobe::cli
