// `kubectl strobe check`: asks whether a capture would work now, by a request that only preflights.
#include <iostream>

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
#include "operator/base/names.h"

namespace strobe::cli {
namespace {

using cluster::Finding;

// An operator that runs writes a status within milliseconds; a new leader needs seconds.
constexpr Nanos kSilence = std::chrono::seconds(20);

// The namespace that kubectl uses. It fills in the default one when it reads an object, wherever
// that comes from: a flag, the context, or the pod that it runs in.
absl::StatusOr<std::string> Namespace(cluster::Kubectl& kubectl) {
  constexpr char kObject[] =
      R"({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})";
  ASSIGN_OR_RETURN(const std::string text,
                   cluster::Output(kubectl,
                                   {"create", "--filename=-", "--dry-run=client",
                                    "--output=jsonpath={.metadata.namespace}"},
                                   kObject));
  return text;
}

absl::StatusOr<std::vector<Finding>> AskForAccess(cluster::Kubectl& kubectl) {
  ASSIGN_OR_RETURN(const std::string ns, Namespace(kubectl));
  nlohmann::ordered_json list = {{"apiVersion", "v1"}, {"kind", "List"}};
  for (nlohmann::ordered_json& review : cluster::AccessReviews(ns))
    list["items"].push_back(std::move(review));
  ASSIGN_OR_RETURN(const std::string text, CreateObject(kubectl, list, {"--output=json"}));
  return cluster::AccessFindings(cluster::ParseJsonObjects(text));
}

// Follows the preflight until it is finished. None: it did not finish in time, or the user
// interrupted; `findings` says what is known then.
std::optional<objects::ProfileRequest> AwaitPreflight(const objects::ProfileRequest& created,
                                                      Nanos timeout, cluster::Kubectl& kubectl,
                                                      std::vector<Finding>& findings) {
  const Interrupts interrupts;
  const SystemClock clock;
  const MonoTime begin = clock.MonoNow();
  objects::ProfileRequest last = created;
  const auto in_time = [&] {
    const bool heard = !last.status.conditions.empty();
    return interrupts.count() == 0 &&
           clock.MonoNow() - begin < (heard ? timeout : std::min(timeout, kSilence));
  };
  cluster::WatchHooks hooks;
  hooks.seen = [&](const objects::ProfileRequest& request) {
    last = request;
    return !objects::IsFinished(request.status);
  };
  hooks.tick = in_time;
  hooks.pause = [&] {
    PauseOneSecond(interrupts, 0);
    return in_time();
  };
  const absl::Status watched = cluster::WatchRequest(kubectl, created.name, created.uid, hooks);
  if (objects::IsFinished(last.status)) return last;
  if (!watched.ok())
    findings.push_back({.level = Finding::Level::kFailed,
                        .subject = "request",
                        .message = MessageOf(watched),
                        .remedy = ""});
  else if (interrupts.count() > 0)
    findings.push_back({.level = Finding::Level::kFailed,
                        .subject = "request",
                        .message = "interrupted",
                        .remedy = ""});
  else if (last.status.conditions.empty())
    findings.push_back(cluster::SilentOperatorFinding(FormatDuration(std::min(timeout, kSilence))));
  else
    findings.push_back({.level = Finding::Level::kFailed,
                        .subject = "request",
                        .message = StrCat("it did not end within ", FormatDuration(timeout), ": ",
                                          cluster::ResultText(last, clock.WallNow())),
                        .remedy = "Wait longer with --timeout."});
  return std::nullopt;
}

absl::Status AskWorkers(const nlohmann::ordered_json& request, Nanos timeout,
                        cluster::Kubectl& kubectl, std::vector<Finding>& findings) {
  const absl::StatusOr<std::string> text = CreateObject(kubectl, request, {"--output=json"});
  if (!text.ok()) {
    findings.push_back(cluster::RefusalFinding(text.status()));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const objects::ProfileRequest created, cluster::ParseRequestText(*text));
  if (const auto ended = AwaitPreflight(created, timeout, kubectl, findings)) {
    for (Finding& finding : cluster::RequestFindings(*ended))
      findings.push_back(std::move(finding));
  }
  // Also after an interrupt. A request that stays deletes itself; see MakePreflight.
  const absl::Status deleted =
      cluster::Output(kubectl, {"delete", kube::kRequestsDefinition, created.name, "--wait=false",
                                "--ignore-not-found"})
          .status();
  if (!deleted.ok())
    findings.push_back({.level = Finding::Level::kWarning,
                        .subject = "request",
                        .message = StrCat("the request of this check, ", created.name,
                                          ", could not be deleted: ", MessageOf(deleted)),
                        .remedy = "It deletes itself after ten minutes."});
  return absl::OkStatus();
}

absl::Status Check(const KubeCheckFlags& flags, std::vector<Finding>& findings) {
  ASSIGN_OR_RETURN(const Nanos timeout, DurationOf("--timeout", flags.timeout));
  // Checks the flags before asking the cluster, so that a wrong one is reported at once.
  if (flags.from.empty()) RETURN_IF_ERROR(cluster::RequestOf(flags.request, nullptr).status());
  cluster::KubectlProcess reader(flags.connection.Arguments());
  ASSIGN_OR_RETURN(
      const std::string resources,
      cluster::Output(reader,
                      {"api-resources", StrCat("--api-group=", kube::kApiGroup), "--output=name"}));
  findings.push_back(cluster::InstallationFinding(resources));
  if (!cluster::AllPassed(findings)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const nlohmann::ordered_json base, ReadFrom(reader, flags.from));
  cluster::KubectlProcess kubectl(InNamespaceOf(base, flags.connection).Arguments());
  ASSIGN_OR_RETURN(nlohmann::ordered_json request, cluster::RequestOf(flags.request, base));
  cluster::MakePreflight(request);
  ASSIGN_OR_RETURN(const std::vector<Finding> access, AskForAccess(kubectl));
  findings.insert(findings.end(), access.begin(), access.end());
  if (!cluster::AllPassed(access)) return absl::OkStatus();
  return AskWorkers(request, timeout, kubectl, findings);
}

}  // namespace

int RunKubeCheck(const KubeCheckFlags& flags) {
  std::vector<Finding> findings;
  const absl::Status checked = Check(flags, findings);
  if (!checked.ok()) return Complain(checked);
  std::cout << (flags.output == "json" ? cluster::FindingsJson(findings)
                                       : cluster::FindingsText(findings));
  return cluster::AllPassed(findings) ? kExitOk : kExitFailed;
}

}  // namespace strobe::cli
