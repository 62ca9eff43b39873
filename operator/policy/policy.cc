#include "operator/policy/policy.h"

#include <algorithm>
#include <array>

#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"
#include "operator/base/condition.h"
#include "operator/base/json_fields.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/policy/capture_budget.h"

namespace strobe::policy {
namespace {

using Kind = Verdict::Kind;

Verdict Refused(const ProfilePolicy& policy, std::string_view why) {
  return {Kind::kRefused, StrCat("ProfilePolicy ", policy.name, ": ", why), {}};
}

Verdict JudgeByOne(const ProfilePolicy& policy, const NamespaceFacts& ns,
                   const capture::Spec& capture, WallTime now, const JobRuns* automatic) {
  if (!policy.invalid.empty()) return Refused(policy, policy.invalid);
  std::vector<std::string> prefixes;
  for (const std::string& prefix : policy.allowed_logdirs)
    prefixes.push_back(WithNamespace(prefix, ns.name));
  if (std::none_of(prefixes.begin(), prefixes.end(),
                   [&](const std::string& prefix) { return IsBelow(capture.logdir, prefix); })) {
    return Refused(policy,
                   StrCat("logdir ", capture.logdir, " is not below ",
                          prefixes.empty() ? "any allowed logdir" : Join(prefixes, " or ")));
  }
  if (policy.max_duration && capture.duration > *policy.max_duration) {
    return Refused(policy, StrCat("duration ", FormatDuration(capture.duration), " is longer than ",
                                  FormatDuration(*policy.max_duration), " (maxDuration)"));
  }
  if (policy.max_duration && capture.guard && *capture.guard > *policy.max_duration) {
    return Refused(policy,
                   StrCat("start.guard ", FormatDuration(*capture.guard), " is longer than ",
                          FormatDuration(*policy.max_duration), " (maxDuration)"));
  }
  if (policy.max_duration && capture.look_back > *policy.max_duration) {
    return Refused(policy,
                   StrCat("lookBack ", FormatDuration(capture.look_back), " is longer than ",
                          FormatDuration(*policy.max_duration), " (maxDuration)"));
  }
  if (capture.collects_evidence && !policy.evidence) {
    return Refused(policy, "reading stacks and other evidence of stalls is not allowed (evidence)");
  }
  const bool bounds_bytes = policy.max_bytes && !capture.collects_evidence;
  if (bounds_bytes && (capture.max_bytes == 0 || capture.max_bytes > *policy.max_bytes)) {
    return Refused(policy, StrCat("maxBytesPerWorker must be given and at most ",
                                  FormatQuantity(*policy.max_bytes)));
  }
  if (automatic != nullptr) {
    if (const std::optional<std::string> why =
            WhyOverLimits(policy.automatic, *automatic, capture.duration + capture.look_back, now))
      return {Kind::kUsedUp, StrCat("ProfilePolicy ", policy.name, ": ", *why), {}};
  }
  // A job that stands still may be killed before a capture's turn comes, and nothing is recorded.
  if (capture.collects_evidence) return {.max_duration = policy.max_duration};
  // The message must not contain numbers that change while requests wait: each change would be a
  // write of each waiting request's status.
  const int before = ns.earlier.active + ns.earlier.ahead;
  if (policy.max_concurrent && before >= *policy.max_concurrent) {
    return {Kind::kWait,
            StrCat("ProfilePolicy ", policy.name, " allows ", *policy.max_concurrent,
                   *policy.max_concurrent == 1 ? " capture" : " captures",
                   " of this namespace at once (maxConcurrent); other captures come first"),
            {}};
  }
  if (policy.min_interval && before > 0) {
    return {Kind::kWait,
            StrCat("ProfilePolicy ", policy.name, ": ", FormatDuration(*policy.min_interval),
                   " must pass between captures (minInterval); other captures of this namespace "
                   "come first"),
            {}};
  }
  if (policy.min_interval && ns.last_end && *ns.last_end + *policy.min_interval > now) {
    const Nanos left = *ns.last_end + *policy.min_interval - now;
    return {Kind::kWait,
            StrCat("ProfilePolicy ", policy.name, ": ", FormatDuration(*policy.min_interval),
                   " must pass between captures (minInterval)"),
            left};
  }
  return {.max_duration = policy.max_duration};
}

// What the policies that match a namespace give to requests or sidecars that ask for nothing
// themselves.
struct Granted {
  std::string value{};               // Empty if none of them gives anything.
  bool differ = false;               // They do not give the same.
  std::vector<std::string> named{};  // The policies that give something, and what.
};

// `of` returns a policy's value as text, or an empty text.
template <typename Of>
Granted WhatPoliciesGive(const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns,
                         const Of& of) {
  Granted given;
  for (const ProfilePolicy& policy : policies) {
    if (!policy.invalid.empty() || !policy.namespaces.Matches(ns.labels)) continue;
    std::string own = of(policy);
    if (own.empty()) continue;
    given.named.push_back(StrCat(policy.name, " (", own, ")"));
    given.differ = given.differ || (!given.value.empty() && own != given.value);
    given.value = std::move(own);
  }
  return given;
}

bool IsDigitsAndDots(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

constexpr std::size_t kMaxMessageBytes = 1024;
// Stands for any namespace.
constexpr char kSomeNamespace[] = "some-namespace";

kube::Condition NotReady(std::string reason, std::string message) {
  kube::Condition condition;
  condition.status = kube::ConditionStatus::kFalse;
  condition.reason = std::move(reason);
  condition.message = CutUtf8(message, kMaxMessageBytes);
  return condition;
}

kube::Condition Judge(const ProfilePolicy& policy) {
  if (!policy.invalid.empty())
    return NotReady("InvalidSpec", StrCat(policy.invalid, "; the policy allows nothing"));
  std::vector<std::string> allowed;
  for (std::size_t i = 0; i < policy.allowed_logdirs.size(); ++i) {
    allowed.push_back(WithNamespace(policy.allowed_logdirs[i], kSomeNamespace));
    if (const absl::Status good = CheckLogdirIsNoAddress(allowed.back()); !good.ok()) {
      return NotReady("InvalidLogdir", StrCat("allowedLogdirs[", i, "]: ", MessageOf(good),
                                              "; the policy allows nothing"));
    }
  }
  const std::string preset = WithNamespace(policy.default_logdir, kSomeNamespace);
  if (!preset.empty() && std::none_of(allowed.begin(), allowed.end(),
                                      [&](const auto& one) { return IsBelow(preset, one); }))
    return NotReady("InvalidDefaultLogdir", "defaultLogdir is not below any of allowedLogdirs");
  kube::Condition condition;
  condition.status = kube::ConditionStatus::kTrue;
  condition.reason = "Valid";
  condition.message = "this policy applies to captures in the selected namespaces";
  return condition;
}

using Json = nlohmann::json;

constexpr std::size_t kMaxKeptRuns = 1000;
constexpr Nanos kMinKept = std::chrono::minutes(1);

absl::Status ReadSidecar(const Json& sidecar, ProfilePolicy& policy) {
  policy.flight_recorder_devices = sidecar.value("flightRecorderDevices", false);
  if (!sidecar.contains("runAsUser")) return absl::OkStatus();
  kube::SidecarUser ids;
  ids.user = sidecar["runAsUser"].get<std::int64_t>();
  ids.group = sidecar.value("runAsGroup", ids.user);
  if (!kube::IsSidecarId(ids.user) || !kube::IsSidecarId(ids.group)) {
    return absl::InvalidArgumentError(
        "sidecar.runAsUser and sidecar.runAsGroup must be from 1 to 2147483647");
  }
  policy.sidecar_user = ids;
  return absl::OkStatus();
}

absl::Status ReadKeep(const Json& keep, AutomaticLimits& limits) {
  if (keep.contains("runs")) limits.keep_runs = keep["runs"].get<std::size_t>();
  if (limits.keep_runs && (*limits.keep_runs < 1 || *limits.keep_runs > kMaxKeptRuns))
    return absl::InvalidArgumentError("automatic.keep.runs: it must be from 1 to 1000");
  RETURN_IF_ERROR(kube::ReadDuration(keep, "for", limits.keep_for));
  if (limits.keep_for && *limits.keep_for < kMinKept)
    return absl::InvalidArgumentError("automatic.keep.for: it must be at least 1m");
  return absl::OkStatus();
}

// The schema has the same bounds, but an older schema may be installed.
absl::Status ReadAutomatic(const Json& given, AutomaticLimits& limits) {
  ASSIGN_OR_RETURN(limits.budget, ReadBudget(given, "automatic"));
  if (given.contains("maxConcurrent")) limits.max_concurrent = given["maxConcurrent"].get<int>();
  if (limits.max_concurrent && (*limits.max_concurrent < 1 || *limits.max_concurrent > 1000))
    return absl::InvalidArgumentError("automatic.maxConcurrent: it must be from 1 to 1000");
  return ReadKeep(given.value("keep", Json::object()), limits);
}

absl::Status ReadSpec(const Json& spec, ProfilePolicy& policy) {
  ASSIGN_OR_RETURN(
      policy.namespaces,
      kube::ReadSelector(spec.value("namespaceSelector", Json::object()), "namespaceSelector"));
  policy.allowed_logdirs = spec.value("allowedLogdirs", std::vector<std::string>());
  policy.default_logdir = spec.value("defaultLogdir", "");
  RETURN_IF_ERROR(kube::ReadDuration(spec, "maxDuration", policy.max_duration));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "minInterval", policy.min_interval));
  policy.evidence = spec.value("evidence", "Allow") != "Deny";
  if (spec.contains("maxConcurrent")) policy.max_concurrent = spec["maxConcurrent"].get<int>();
  RETURN_IF_ERROR(ReadAutomatic(spec.value("automatic", Json::object()), policy.automatic));
  RETURN_IF_ERROR(ReadSidecar(spec.value("sidecar", Json::object()), policy));
  return kube::ReadBytes(spec, "maxBytesPerWorker", policy.max_bytes);
}

}  // namespace

std::string WithNamespace(std::string logdir, const std::string& ns) {
  constexpr std::string_view kPlace = "{namespace}";
  for (std::size_t at = 0; (at = logdir.find(kPlace, at)) != std::string::npos; at += ns.size())
    logdir.replace(at, kPlace.size(), ns);
  return logdir;
}

Verdict JudgeByPolicies(const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns,
                        const capture::Spec& capture, WallTime now, const JobRuns* automatic) {
  if (const absl::Status status = CheckLogdirIsNoAddress(capture.logdir); !status.ok())
    return {Kind::kRefused, MessageOf(status), {}};
  Verdict best{
      Kind::kRefused,
      StrCat("no ProfilePolicy matches namespace ", ns.name, "; ask an administrator for one"),
      {}};
  bool first = true;
  for (const ProfilePolicy& policy : policies) {
    if (!policy.namespaces.Matches(ns.labels)) continue;
    Verdict verdict = JudgeByOne(policy, ns, capture, now, automatic);
    if (verdict.kind == Kind::kAllowed) return verdict;
    if (first || verdict.kind < best.kind)
      best = std::move(verdict);
    else if (best.kind == verdict.kind)
      best.message += StrCat("; ", verdict.message);
    first = false;
  }
  return best;
}

bool BoundsStarts(const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns) {
  return std::any_of(policies.begin(), policies.end(), [&](const ProfilePolicy& policy) {
    return policy.automatic.bounds_starts() && policy.namespaces.Matches(ns.labels);
  });
}

absl::StatusOr<std::string> DefaultLogdir(const std::vector<ProfilePolicy>& policies,
                                          const NamespaceFacts& ns) {
  const Granted logdir = WhatPoliciesGive(policies, ns, [&](const ProfilePolicy& policy) {
    return WithNamespace(policy.default_logdir, ns.name);
  });
  if (logdir.differ) {
    return absl::FailedPreconditionError(
        StrCat("spec.logdir is not given, and the ProfilePolicies of namespace ", ns.name,
               " have different defaults: ", Join(logdir.named, ", "), "; give spec.logdir"));
  }
  if (logdir.value.empty()) {
    return absl::NotFoundError(
        StrCat("spec.logdir is not given, and no ProfilePolicy of namespace ", ns.name,
               " has a defaultLogdir; give spec.logdir, or ask an administrator for a default"));
  }
  return logdir.value;
}

absl::StatusOr<std::optional<kube::SidecarUser>> SidecarUserOf(
    const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns) {
  std::optional<kube::SidecarUser> user;
  const Granted given = WhatPoliciesGive(policies, ns, [&](const ProfilePolicy& policy) {
    if (!policy.sidecar_user) return std::string();
    user = policy.sidecar_user;
    return StrCat(user->user, ":", user->group);
  });
  if (given.differ) {
    return absl::FailedPreconditionError(
        StrCat("the ProfilePolicies of namespace ", ns.name,
               " give sidecars different users: ", Join(given.named, ", ")));
  }
  return user;
}

bool AllowsFlightRecorderDevices(const std::vector<ProfilePolicy>& policies,
                                 const NamespaceFacts& ns) {
  return std::any_of(policies.begin(), policies.end(), [&](const ProfilePolicy& policy) {
    return policy.flight_recorder_devices && policy.invalid.empty() &&
           policy.namespaces.Matches(ns.labels);
  });
}

absl::Status CheckLogdirIsNoAddress(const std::string& text) {
  ASSIGN_OR_RETURN(const storage::Logdir logdir, storage::Logdir::Parse(text));
  if (!logdir.options().empty())
    return absl::InvalidArgumentError("logdir has options; remove \"?\" and everything after it");
  // A trailing dot does not change which host a name means.
  std::string bucket = logdir.bucket();
  while (!bucket.empty() && bucket.back() == '.') bucket.pop_back();
  std::transform(bucket.begin(), bucket.end(), bucket.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::array<std::string_view, 5> kInside = {".svc", ".local", ".internal", ".localhost",
                                                       ".localdomain"};
  const bool inside = bucket == "localhost" || bucket == "metadata" ||
                      bucket.find(".svc.") != std::string::npos ||
                      std::any_of(kInside.begin(), kInside.end(),
                                  [&](std::string_view end) { return bucket.ends_with(end); });
  // Some resolvers take "0x7f000001" for an address.
  if (inside || IsDigitsAndDots(bucket) || bucket.starts_with("0x")) {
    return absl::InvalidArgumentError(
        StrCat("logdir ", logdir.url(), " names a host or an address instead of a bucket"));
  }
  return absl::OkStatus();
}

bool IsBelow(const std::string& logdir, const std::string& prefix) {
  const absl::StatusOr<storage::Logdir> inner = storage::Logdir::Parse(logdir),
                                        outer = storage::Logdir::Parse(prefix);
  if (!inner.ok() || !outer.ok()) return false;
  const std::string below = inner->url() + "/";
  std::string above = outer->url();
  if (above.back() != '/') above += "/";
  return below.starts_with(above) || inner->url() == outer->url();
}

std::vector<kube::Condition> PolicyConditions(const ProfilePolicy& policy, WallTime now) {
  kube::Condition ready = Judge(policy);
  ready.type = condition::kReady;
  ready.observed_generation = policy.generation;
  kube::SetSince(policy.conditions, now, ready);
  return {std::move(ready)};
}

ProfilePolicy ParsePolicy(const Json& object) {
  ProfilePolicy policy;
  try {
    const Json& metadata = object.at("metadata");
    policy.name = metadata.at("name");
    policy.uid = metadata.value("uid", "");
    policy.resource_version = metadata.value("resourceVersion", "");
    policy.generation = metadata.value("generation", std::int64_t{0});
    policy.conditions = kube::ReadConditions(object.value("status", Json::object()));
    if (const absl::Status status = ReadSpec(object.value("spec", Json::object()), policy);
        !status.ok()) {
      policy.invalid = MessageOf(status);
    }
  } catch (const Json::exception& error) {
    policy.invalid = StrCat("a field has the wrong type: ", error.what());
  }
  return policy;
}

std::string PoliciesPath() { return kube::CollectionPath("", kube::kPoliciesResource); }

Json PolicyStatusToJson(const ProfilePolicy& policy,
                        const std::vector<kube::Condition>& conditions) {
  // The UID and the version prevent writing about an object that is not the one that was judged.
  return {
      {"apiVersion", kube::kApiVersion},
      {"kind", "ProfilePolicy"},
      {"metadata",
       {{"name", policy.name}, {"uid", policy.uid}, {"resourceVersion", policy.resource_version}}},
      {"status",
       {{"observedGeneration", policy.generation},
        {"conditions", kube::ConditionsToJson(conditions)}}}};
}

}  // namespace strobe::policy
