// `kubectl strobe why` and `kubectl strobe stacks`: asks for the evidence of a job that stands
// still, by a ProfileRequest, and shows what the operator made of it.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/kube/check_findings.h"
#include "cli/kube/kube_commands.h"
#include "cli/kube/kube_session.h"
#include "cli/kube/kubectl.h"
#include "cli/kube/request_view.h"
#include "cli/kube/request_watch.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::cli {
namespace {

// An operator that runs writes a status within milliseconds; a new leader needs seconds.
constexpr Nanos kOperatorSilence = std::chrono::seconds(20);

// The request as soon as it has a verdict: the run is written after that, and nobody needs to wait
// for it. If it has none, why not.
absl::StatusOr<objects::ProfileRequest> AwaitVerdict(const objects::ProfileRequest& created,
                                                     Nanos timeout, cluster::Kubectl& kubectl) {
  const Interrupts interrupts;
  const SystemClock clock;
  const MonoTime begin = clock.MonoNow();
  objects::ProfileRequest last = created;
  const auto limit = [&] {
    return last.status.conditions.empty() ? std::min(timeout, kOperatorSilence) : timeout;
  };
  const auto in_time = [&] { return interrupts.count() == 0 && clock.MonoNow() - begin < limit(); };
  cluster::WatchHooks hooks;
  hooks.seen = [&](const objects::ProfileRequest& request) {
    last = request;
    return !objects::IsFinished(request.status) && !cluster::HasVerdict(request);
  };
  hooks.tick = in_time;
  hooks.pause = [&] {
    PauseOneSecond(interrupts, 0);
    return in_time();
  };
  const absl::Status watched = cluster::WatchRequest(kubectl, created.name, created.uid, hooks);
  if (cluster::HasVerdict(last)) return last;
  if (objects::IsFinished(last.status))
    return absl::FailedPreconditionError(
        StrCat(cluster::ResultText(last, clock.WallNow()), "\n", cluster::VerdictText(last)));
  RETURN_IF_ERROR(watched);
  if (interrupts.count() > 0)
    return absl::CancelledError(
        StrCat("interrupted; see kubectl strobe get ", created.name, " for the verdict"));
  if (last.status.conditions.empty()) {
    const cluster::Finding silent = cluster::SilentOperatorFinding(FormatDuration(limit()));
    return absl::DeadlineExceededError(StrCat(silent.message, "; ", silent.remedy));
  }
  return absl::DeadlineExceededError(StrCat("there is no verdict after ", FormatDuration(timeout),
                                            ": ", cluster::ResultText(last, clock.WallNow())));
}

absl::StatusOr<objects::ProfileRequest> AskForVerdict(const KubeEvidenceFlags& flags) {
  ASSIGN_OR_RETURN(const Nanos timeout, DurationOf("--timeout", flags.timeout));
  ASSIGN_OR_RETURN(nlohmann::ordered_json request, cluster::RequestOf(flags.request, nullptr));
  cluster::MakeEvidence(request);
  cluster::KubectlProcess kubectl(flags.connection.Arguments());
  ASSIGN_OR_RETURN(const std::string text, CreateObject(kubectl, request, {"--output=json"}));
  ASSIGN_OR_RETURN(const objects::ProfileRequest created, cluster::ParseRequestText(text));
  return AwaitVerdict(created, timeout, kubectl);
}

}  // namespace

int RunKubeWhy(const KubeEvidenceFlags& flags) {
  const absl::StatusOr<objects::ProfileRequest> request = AskForVerdict(flags);
  if (!request.ok()) return Complain(request.status());
  std::cout << (flags.output == "json" ? cluster::StallJson(*request) + "\n"
                                       : cluster::StallText(*request));
  return kExitOk;
}

int RunKubeStacks(const KubeEvidenceFlags& flags) {
  const absl::StatusOr<objects::ProfileRequest> request = AskForVerdict(flags);
  if (!request.ok()) return Complain(request.status());
  const std::vector<std::string>& stacks = request->status.stall.stacks;
  if (stacks.empty())
    return Complain(
        absl::NotFoundError(StrCat("no process told its stacks: ", request->status.stall.verdict)));
  if (flags.output == "json")
    std::cout << JsonText(nlohmann::json{{"request", request->name},
                                         {"run", request->status.run},
                                         {"stacks", stacks}},
                          2)
              << "\n";
  else
    std::cout << Join(stacks, "\n") << "\n";
  return kExitOk;
}

}  // namespace strobe::cli
