#include "cli/kube/check_findings.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/base/enum_names.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "common/text/json.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"

namespace strobe::cluster {
namespace {

using Json = nlohmann::ordered_json;
using Level = Finding::Level;

// A right that the commands need in the namespace.
struct Right {
  std::string_view group, resource, verb;
  enum { kOptional, kNeeded } needed;  // Whether there is no capture without it.
  std::string_view use{};              // What it is for.
};
constexpr std::array<Right, 7> kRights = {{
    {kube::kApiGroup, kube::kRequestsResource, "create", Right::kNeeded, "to ask for a capture"},
    {"", "pods", kube::kProfileVerb, Right::kNeeded, "to have pods recorded"},
    {kube::kApiGroup, kube::kRequestsResource, "get", Right::kNeeded,
     "to see how the capture goes"},
    {kube::kApiGroup, kube::kRequestsResource, "watch", Right::kNeeded,
     "to see how the capture goes"},
    {kube::kApiGroup, kube::kRequestsResource, "list", Right::kOptional, "for kubectl strobe ls"},
    {kube::kApiGroup, kube::kRequestsResource, "patch", Right::kOptional, "to cancel a capture"},
    {kube::kApiGroup, kube::kRequestsResource, "delete", Right::kOptional,
     "to delete requests, also that of a check"},
}};
constexpr std::string_view kBindProfiler =
    "Ask an administrator for the chart's ClusterRole ...-profiler in this namespace: kubectl "
    "create rolebinding profilers --clusterrole strobe-profiler --user YOU.";
constexpr std::string_view kInstall =
    "Install Strobe's chart, or ask an administrator to; see docs/how-to/install.md.";

std::string_view Name(Level level) {
  static constexpr EnumNames<Level, 3> kNames(
      {{Level::kOk, "ok"}, {Level::kWarning, "warning"}, {Level::kFailed, "failed"}});
  return kNames.Of(level, "failed");
}

std::string WorkerText(const objects::StatusPreflight& told) {
  std::vector<std::string> parts;
  if (!told.message.empty()) parts.push_back(told.message);
  if (!told.sidecar.empty()) parts.push_back(StrCat("sidecar ", told.sidecar));
  if (!told.sources.empty()) parts.push_back(Join(told.sources, ", "));
  if (!told.clock_offset.empty())
    parts.push_back(StrCat("clock ", told.clock_offset, " +-", told.clock_error));
  return Join(parts, "; ");
}

Finding WorkerFinding(const objects::StatusPreflight& told) {
  const OutcomeInfo& info = Describe(OutcomeOfName(told.cause));
  const bool ok = info.outcome == Outcome::kOk;
  Finding finding{ok ? Level::kOk : Level::kFailed, StrCat("worker ", told.pod), WorkerText(told)};
  if (ok) {
    // It can write its trace, but the test object is still there.
    if (!told.message.empty()) finding.level = Level::kWarning;
    return finding;
  }
  finding.message = StrCat(told.cause, finding.message.empty() ? "" : ": ", finding.message);
  if (info.outcome != Outcome::kUnknown) finding.remedy = std::string(info.remedy);
  return finding;
}

// The request ended before its workers were asked.
Finding EarlyEndFinding(const kube::Condition& end) {
  const std::string message = StrCat(end.reason, ": ", end.message);
  if (end.reason == "NotAllowed" && Contains(end.message, "may not profile"))
    return {.level = Level::kFailed,
            .subject = "access",
            .message = message,
            .remedy = std::string(kBindProfiler)};
  if (end.reason == "NotAllowed" || end.reason == "WaitingForPolicy") {
    return {.level = Level::kFailed,
            .subject = "policy",
            .message = message,
            .remedy = "Ask for what the policy allows, or ask an administrator to change it."};
  }
  if (end.reason == "NotAdmitted") {
    return {.level = Level::kFailed,
            .subject = "admission",
            .message = message,
            .remedy = "Check that Strobe's webhooks are installed and that its operator is ready."};
  }
  return {.level = Level::kFailed,
          .subject = "target",
          .message = message,
          .remedy =
              "Name a job whose pods exist and have the sidecar: label its pod template, or the "
              "namespace, strobe.dev/inject=true and recreate the pods."};
}

}  // namespace

Finding InstallationFinding(const std::string& resources) {
  for (const char* crd : {kube::kRequestsDefinition, kube::kPoliciesDefinition}) {
    if (!Contains(resources, crd)) {
      return {.level = Level::kFailed,
              .subject = "installation",
              .message = StrCat("the API server does not know ", crd),
              .remedy = std::string(kInstall)};
    }
  }
  return {.level = Level::kOk,
          .subject = "installation",
          .message = "the API server knows Strobe's resources",
          .remedy = ""};
}

std::vector<Json> AccessReviews(const std::string& ns) {
  std::vector<Json> reviews;
  for (const Right& right : kRights) {
    Json attributes = {{"group", right.group}, {"resource", right.resource}, {"verb", right.verb}};
    if (!ns.empty()) attributes["namespace"] = ns;
    reviews.push_back({{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SelfSubjectAccessReview"},
                       {"spec", {{"resourceAttributes", std::move(attributes)}}}});
  }
  return reviews;
}

std::vector<Finding> AccessFindings(const nlohmann::json& reviews) {
  std::vector<Finding> findings;
  for (const Right& right : kRights) {
    const bool allowed =
        reviews.is_array() && std::any_of(reviews.begin(), reviews.end(), [&](const auto& review) {
          const auto& asked = kube::Member(kube::Member(review, "spec"), "resourceAttributes");
          return kube::TextOf(asked, "resource") == right.resource &&
                 kube::TextOf(asked, "verb") == right.verb &&
                 kube::Member(kube::Member(review, "status"), "allowed") == true;
        });
    if (allowed) continue;
    findings.push_back({.level = right.needed == Right::kNeeded ? Level::kFailed : Level::kWarning,
                        .subject = "access",
                        .message = StrCat("you may not ", right.verb, " ", right.resource,
                                          " in this namespace, which is needed ", right.use),
                        .remedy = std::string(kBindProfiler)});
  }
  if (findings.empty())
    findings.push_back({.level = Level::kOk,
                        .subject = "access",
                        .message = "you may capture in this namespace",
                        .remedy = ""});
  return findings;
}

Finding RefusalFinding(const absl::Status& refusal) {
  std::string remedy = "Change the field that the message names.";
  if (absl::IsPermissionDenied(refusal))
    remedy = "Ask for what the message allows, or ask an administrator to allow more.";
  else if (!absl::IsInvalidArgument(refusal))
    remedy = "Check that Strobe's operator is ready: kubectl get pods -n strobe-system.";
  return {.level = Level::kFailed,
          .subject = "request",
          .message = MessageOf(refusal),
          .remedy = std::move(remedy)};
}

Finding SilentOperatorFinding(const std::string& waited) {
  return {
      .level = Level::kFailed,
      .subject = "operator",
      .message = StrCat("the operator has not looked at the request within ", waited),
      .remedy = "Check that it runs and leads: kubectl get pods -n strobe-system, and its log."};
}

std::vector<Finding> RequestFindings(const objects::ProfileRequest& request) {
  const objects::RequestStatus& status = request.status;
  const kube::Condition* end = objects::FindCondition(status, condition::kSucceeded);
  if (end == nullptr) return {};
  std::vector<Finding> findings = {{Level::kOk, "operator", "it has asked the workers", ""}};
  if (status.attempt == 0) {
    findings[0].message = "it has judged the request";
    findings.push_back(EarlyEndFinding(*end));
    return findings;
  }
  const kube::Condition* accepted = objects::FindCondition(status, condition::kAccepted);
  findings.push_back({.level = Level::kOk,
                      .subject = "policy",
                      .message = "the capture is allowed",
                      .remedy = ""});
  findings.push_back({.level = Level::kOk,
                      .subject = "target",
                      .message = accepted == nullptr ? "" : accepted->message,
                      .remedy = ""});
  std::set<std::string> versions;
  std::size_t failed = 0;
  for (const objects::StatusPreflight& told : status.preflight) {
    findings.push_back(WorkerFinding(told));
    failed += findings.back().level == Level::kFailed ? 1 : 0;
    if (!told.sidecar.empty()) versions.insert(told.sidecar);
  }
  if (status.matched > status.preflight.size()) {
    findings.push_back({.level = Level::kWarning,
                        .subject = "workers",
                        .message = StrCat(status.matched - status.preflight.size(),
                                          " more workers, which the status does not list by name"),
                        .remedy = ""});
  }
  if (versions.size() > 1) {
    findings.push_back({.level = Level::kWarning,
                        .subject = "versions",
                        .message = StrCat("the sidecars have ", versions.size(), " versions: ",
                                          Join({versions.begin(), versions.end()}, ", ")),
                        .remedy = "Recreate the pods with the older version."});
  }
  const bool succeeded = end->status == kube::ConditionStatus::kTrue;
  // Other workers than these may be enough for minWorkers, so failures become warnings.
  if (succeeded) {
    for (Finding& finding : findings) {
      if (finding.level == Level::kFailed) finding.level = Level::kWarning;
    }
  } else if (failed == 0) {
    findings.push_back({.level = Level::kFailed,
                        .subject = "capture",
                        .message = StrCat(end->reason, ": ", end->message),
                        .remedy = ""});
  }
  return findings;
}

bool AllPassed(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.level == Level::kFailed; });
}

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    std::string level(Name(finding.level));
    level.resize(9, ' ');
    text += StrCat(level, finding.subject, ": ", finding.message, "\n");
    if (!finding.remedy.empty()) text += StrCat("         ", finding.remedy, "\n");
  }
  return text;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", Name(finding.level)},
                    {"subject", finding.subject},
                    {"message", finding.message},
                    {"remedy", finding.remedy}});
  }
  const Json all = {{"passed", AllPassed(findings)}, {"findings", std::move(list)}};
  return JsonText(all, 2) + "\n";
}

}  // namespace strobe::cluster
