#include "operator/access/kube_gatekeeper.h"

#include <algorithm>

#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/access/series_policies.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/job/target_spec.h"
#include "operator/kube/client.h"
#include "operator/objects/request.h"
#include "operator/objects/run_template.h"
#include "operator/policy/retention.h"

namespace strobe::access {
namespace {

constexpr std::string_view kAgain = "; delete it and create it again";
constexpr std::string_view kChange = ", or change what its runs do";
// Up to this many pods are checked one by one; more require the right to all pods.
constexpr std::size_t kFewNames = 16;
// Access is checked again before each attempt, but with the requester's groups from when the
// request was created. They are not trusted for longer than this.
constexpr Nanos kMaxAdmissionAge = std::chrono::hours(24);
constexpr std::size_t kMaxRemembered = 10'000;
// Ends of captures are kept at least this long, because policies may become stricter.
constexpr Nanos kKeepAtLeast = std::chrono::hours(24);
// The age up to which remembered policies and labels are used for waiting requests.
constexpr Nanos kCacheAge = std::chrono::seconds(5);
// How long a waiting request may wait for them. It is short, because all other waiting requests
// wait meanwhile.
constexpr Nanos kCacheReadLimit = std::chrono::seconds(3);

}  // namespace

absl::StatusOr<std::string> KubeGatekeeper::WhyNotAdmitted(const objects::ProfileRequest& request) {
  if (!request.requester) {
    return StrCat(
        "the requester is not known: the request was created while Strobe's webhook was not "
        "installed",
        kAgain);
  }
  const WallTime now = clock_.WallNow();
  if (now - request.created > kMaxAdmissionAge) {
    return StrCat("it was created more than ", FormatDuration(kMaxAdmissionAge),
                  " ago, and the requester's groups may have changed since", kAgain);
  }
  return WhyNotProved({.uid = request.uid,
                       .created = request.created,
                       .admission = request.admission,
                       .seal = request.seal});
}

absl::StatusOr<std::string> KubeGatekeeper::WhyNotAdmitted(const kube::RunCreator& creator) {
  if (!creator.requester) {
    return StrCat("the requester is not known: the ", kube::NounOf(creator.kind),
                  " was created while Strobe's webhook was not installed", kAgain, kChange);
  }
  const bool changed = !creator.sealed_uid.empty();
  if (changed && creator.sealed_uid != creator.uid) {
    return StrCat("annotation ", kube::kRequesterAnnotation, " belongs to another ",
                  kube::NounOf(creator.kind), kAgain, kChange);
  }
  ASSIGN_OR_RETURN(std::string why, WhyNotProved({.uid = creator.uid,
                                                  .created = creator.created,
                                                  .admission = creator.admission,
                                                  .seal = creator.seal,
                                                  .changed = changed,
                                                  .admitted = creator.admitted}));
  return why.empty() ? why : StrCat(why, kChange);
}

absl::StatusOr<std::string> KubeGatekeeper::WhyNotProved(const Stamped& stamped) {
  // Checked each time, because an annotation can be changed at any time.
  if (!kube::SealHolds(options_.seal_keys(), stamped.admission, stamped.seal)) {
    return StrCat("annotation ", kube::kRequesterAnnotation,
                  " is not as Strobe's webhook wrote it, so "
                  "the requester is not known",
                  kAgain);
  }
  // All of the below was true once, and only the operator itself can have sealed that.
  if (stamped.admitted) return std::string();
  // The seal of a change contains the object's UID; that of a creation cannot, so its time is
  // checked.
  if (!stamped.changed &&
      std::chrono::abs(stamped.created - stamped.admission.at) > kube::kSealToCreation) {
    return StrCat("annotation ", kube::kRequesterAnnotation, " was sealed at ",
                  FormatRfc3339(stamped.admission.at), ", but the object was created at ",
                  FormatRfc3339(stamped.created),
                  ": it belongs to another one, or the clocks of "
                  "operator and API server differ",
                  kAgain);
  }
  ASSIGN_OR_RETURN(const bool installed, WereInstalledFor(stamped));
  if (!installed) return StrCat("it was created before Strobe's webhooks were installed", kAgain);
  return std::string();
}

// Anyone who can reach the webhook's port can have anything sealed. But while the webhook
// configuration exists, the API server has every request sealed again, with the requester that it
// knows.
absl::StatusOr<bool> KubeGatekeeper::WereInstalledFor(const Stamped& stamped) {
  if (options_.webhooks.empty()) return true;
  const std::string sealed = StrCat(stamped.uid, " ", stamped.seal);
  {
    MutexLock lock(&mutex_);
    if (installed_for_.contains(sealed)) return true;
  }
  const absl::StatusOr<kube::Json> webhooks = client_.Get(StrCat(
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/", options_.webhooks));
  if (absl::IsNotFound(webhooks.status())) return false;
  RETURN_IF_ERROR(webhooks.status());
  const std::optional<WallTime> since =
      kube::ReadTime(webhooks->value("metadata", kube::Json::object()), "creationTimestamp");
  if (!since || (stamped.changed ? stamped.admission.at : stamped.created) < *since) return false;
  MutexLock lock(&mutex_);
  if (installed_for_.size() >= kMaxRemembered) installed_for_.clear();
  installed_for_.insert(sealed);
  return true;
}

absl::StatusOr<policy::Verdict> KubeGatekeeper::Judge(const objects::ProfileRequest& request,
                                                      const kube::Requester& requester,
                                                      const policy::EarlierCaptures& earlier,
                                                      Nanos within) {
  const MonoTime deadline = clock_.MonoNow() + within;
  ASSIGN_OR_RETURN(std::string refusal, WhyNoAccess(request, requester, deadline));
  if (!refusal.empty())
    return policy::Verdict{policy::Verdict::Kind::kRefused, std::move(refusal), {}};
  ASSIGN_OR_RETURN(const std::vector<policy::ProfilePolicy> policies, ReadPolicies(deadline));
  ASSIGN_OR_RETURN(Labels labels, ReadLabels(request.ns, deadline));
  return JudgeByFacts(request, earlier, policies, std::move(labels), deadline);
}

absl::StatusOr<RunVerdict> KubeGatekeeper::JudgeRun(const objects::ProfileRequest& run,
                                                    const kube::RunCreator& creator, Nanos within) {
  const MonoTime deadline = clock_.MonoNow() + within;
  ASSIGN_OR_RETURN(std::string refusal, WhyNoAccess(run, *creator.requester, deadline));
  if (!refusal.empty())
    return RunVerdict{{policy::Verdict::Kind::kRefused, std::move(refusal), {}}};
  ASSIGN_OR_RETURN(const std::vector<policy::ProfilePolicy> policies, ReadPolicies(deadline));
  ASSIGN_OR_RETURN(Labels labels, ReadLabels(run.ns, deadline));
  ASSIGN_OR_RETURN(const policy::NamespaceFacts facts,
                   FactsOf(run, {}, policies, std::move(labels), deadline));
  const bool counted = policy::BoundsOfSeries(policies, facts.labels).counted;
  const kube::Object present = requests_.Get(StrCat(run.ns, "/", run.name));
  const bool exists =
      present != nullptr && kube::SealedCreatorOf(*present, options_.seal_keys()) == creator.uid;
  // An existing run was judged before; a run that only preflights records nothing.
  if (!policy::BoundsStarts(policies, facts) || run.capture.preflight_only || exists)
    return RunVerdict{JudgeWith(policies, facts, run, nullptr), counted};
  // Alerts may come before the first list of requests has arrived.
  if (!requests_.filled()) return absl::UnavailableError("the requests are not known yet");
  MutexLock lock(&runs_mutex_);
  // This may be another try to create the same run, which must not count itself.
  runs_.Forget(run.ns, run.name);
  const policy::JobRuns others = runs_.OfJob(run.ns, job::TextOfTargets(objects::TargetsOf(run)));
  policy::Verdict verdict = JudgeWith(policies, facts, run, &others);
  if (verdict.kind == policy::Verdict::Kind::kAllowed ||
      verdict.kind == policy::Verdict::Kind::kWait)
    runs_.Expect(run);
  return RunVerdict{std::move(verdict), counted};
}

void KubeGatekeeper::ForgetRun(const std::string& ns, const std::string& name) {
  MutexLock lock(&runs_mutex_);
  runs_.Forget(ns, name);
}

std::optional<policy::Verdict> KubeGatekeeper::JudgeFromCache(
    const objects::ProfileRequest& request, const policy::EarlierCaptures& earlier) {
  const absl::StatusOr<std::vector<policy::ProfilePolicy>> policies = RecentPolicies();
  if (!policies.ok()) return std::nullopt;
  absl::StatusOr<Labels> labels = RecentLabels(request.ns);
  if (!labels.ok()) return std::nullopt;
  absl::StatusOr<policy::Verdict> verdict = JudgeByFacts(
      request, earlier, *policies, *std::move(labels), clock_.MonoNow() + kCacheReadLimit);
  // A request that would have been refused a few seconds ago may be allowed now.
  if (!verdict.ok() || verdict->kind != policy::Verdict::Kind::kWait) return std::nullopt;
  return *std::move(verdict);
}

absl::StatusOr<std::string> KubeGatekeeper::LogdirFor(const std::string& ns, Nanos within) {
  const MonoTime deadline = clock_.MonoNow() + within;
  // NotFound would be taken for the policies' answer, so failed reads are Unavailable.
  const auto unknown = [](const absl::Status& status) {
    return absl::UnavailableError(status.message());
  };
  const absl::StatusOr<std::vector<policy::ProfilePolicy>> policies = ReadPolicies(deadline);
  if (!policies.ok()) return unknown(policies.status());
  absl::StatusOr<Labels> labels = ReadLabels(ns, deadline);
  if (!labels.ok()) return unknown(labels.status());
  return policy::DefaultLogdir(*policies, {.name = ns, .labels = *std::move(labels)});
}

std::string KubeGatekeeper::WhyNoMoreRequests(const std::string& ns) {
  const kube::ObjectCache::Use own = requests_.UseOf(ns);
  if (own.open >= kube::kMaxOpenRequests) {
    return StrCat("namespace ", ns, " has ", own.open,
                  " ProfileRequests that have not finished, and may have ", kube::kMaxOpenRequests,
                  "; wait for some, or delete them");
  }
  const std::size_t all = requests_.all().bytes;
  const std::size_t most = std::min(
      kube::kMaxRequestBytes, kube::kMaxAllRequestBytes - std::min(all, kube::kMaxAllRequestBytes));
  if (own.bytes <= most) return "";
  return StrCat("the ProfileRequests of namespace ", ns, " take ", own.bytes >> 20,
                " MiB of the operator's memory, and may take ", most >> 20,
                " MiB; delete finished ones, or let them delete themselves with ttlAfterFinished");
}

absl::StatusOr<std::string> KubeGatekeeper::WhyNoMore(kube::CreatorKind kind, const std::string& ns,
                                                      Nanos within) {
  // The server counts what it leaves out, which costs less than to list it.
  std::size_t count = 0;
  ASSIGN_OR_RETURN(const kube::Json list, client_.GetItems(
                                              StrCat(objects::CreatorsPath(kind, ns), "?limit=1"),
                                              [&](const kube::Json&) { ++count; }, within));
  const kube::Json& more = kube::Member(kube::Member(list, "metadata"), "remainingItemCount");
  if (more.is_number_unsigned()) count += more.get<std::size_t>();
  if (count < kube::kMaxCreators) return std::string();
  return StrCat("namespace ", ns, " has ", count, " ", objects::KindName(kind), "s, and may have ",
                kube::kMaxCreators);
}

absl::StatusOr<policy::Verdict> KubeGatekeeper::JudgeByFacts(
    const objects::ProfileRequest& request, const policy::EarlierCaptures& earlier,
    const std::vector<policy::ProfilePolicy>& policies, Labels labels, MonoTime deadline) {
  ASSIGN_OR_RETURN(const policy::NamespaceFacts facts,
                   FactsOf(request, earlier, policies, std::move(labels), deadline));
  return JudgeWith(policies, facts, request, nullptr);
}

policy::Verdict KubeGatekeeper::JudgeWith(const std::vector<policy::ProfilePolicy>& policies,
                                          const policy::NamespaceFacts& facts,
                                          const objects::ProfileRequest& request,
                                          const policy::JobRuns* automatic) {
  const bool matched = std::any_of(
      policies.begin(), policies.end(),
      [&](const policy::ProfilePolicy& policy) { return policy.namespaces.Matches(facts.labels); });
  if (!matched && !options_.need_policy) return {};
  return policy::JudgeByPolicies(policies, facts, request.capture, clock_.WallNow(), automatic);
}

absl::StatusOr<policy::NamespaceFacts> KubeGatekeeper::FactsOf(
    const objects::ProfileRequest& request, const policy::EarlierCaptures& earlier,
    const std::vector<policy::ProfilePolicy>& policies, Labels labels, MonoTime deadline) {
  policy::NamespaceFacts facts{.name = request.ns, .labels = std::move(labels), .earlier = earlier};
  // Reads all requests of the namespace, so it is done only if a policy needs it.
  const auto asked = [&](const auto field) {
    return std::any_of(
        policies.begin(), policies.end(),
        [field](const policy::ProfilePolicy& policy) { return (policy.*field).has_value(); });
  };
  if (asked(&policy::ProfilePolicy::min_interval) ||
      asked(&policy::ProfilePolicy::max_concurrent)) {
    const OtherCaptures others = OtherCapturesOf(request);
    facts.earlier.active = std::max(facts.earlier.active, others.active);
    facts.last_end = others.last_end;
  }
  if (asked(&policy::ProfilePolicy::min_interval)) {
    ASSIGN_OR_RETURN(const std::optional<WallTime> remembered,
                     history_.LastEnd(request.ns, deadline - clock_.MonoNow()));
    facts.last_end = std::max(facts.last_end, remembered);
  }
  return facts;
}

void KubeGatekeeper::CaptureEnded(const std::string& ns, WallTime when) {
  std::optional<Nanos> longest;
  {
    MutexLock lock(&mutex_);
    longest = longest_interval_;
  }
  if (!longest && ReadPolicies(clock_.MonoNow() + kCacheReadLimit).ok()) {
    MutexLock lock(&mutex_);
    longest = longest_interval_;
  }
  // Nothing is stored if no policy has a minInterval. If the policies are not known, the end is
  // stored.
  const Nanos keep = longest.value_or(kKeepAtLeast);
  history_.NoteEnd(ns, when,
                   keep > Nanos{0} ? std::optional(std::max(keep, kKeepAtLeast)) : std::nullopt);
}

absl::StatusOr<std::string> KubeGatekeeper::WhyNoAccess(const objects::ProfileRequest& request,
                                                        const kube::Requester& requester,
                                                        MonoTime deadline) {
  ASSIGN_OR_RETURN(const bool all, MayProfile(requester, request.ns, "", deadline));
  if (all) return std::string();
  bool each = true;
  std::vector<std::string> pods;
  for (const job::TargetSpec& target : objects::TargetsOf(request)) {
    each = each && !target.pods.empty();
    pods.insert(pods.end(), target.pods.begin(), target.pods.end());
  }
  each = each && pods.size() <= kFewNames;
  for (std::size_t i = 0; each && i < pods.size(); ++i) {
    ASSIGN_OR_RETURN(each, MayProfile(requester, request.ns, pods[i], deadline));
  }
  if (each) return std::string();
  return StrCat("user \"", requester.username, "\" may not profile pods in namespace ", request.ns,
                "; this requires the verb \"profile\" on pods (apiGroup \"\"), which the "
                "chart's ClusterRole ...-profiler grants");
}

absl::StatusOr<bool> KubeGatekeeper::MayProfile(const kube::Requester& requester,
                                                const std::string& ns, const std::string& pod,
                                                MonoTime deadline) {
  kube::Json attributes = {{"namespace", ns}, {"verb", kube::kProfileVerb}, {"resource", "pods"}};
  if (!pod.empty()) attributes["name"] = pod;
  return kube::IsAllowed(client_, requester, std::move(attributes), deadline - clock_.MonoNow());
}

KubeGatekeeper::OtherCaptures KubeGatekeeper::OtherCapturesOf(
    const objects::ProfileRequest& request) const {
  OtherCaptures others;
  for (const kube::Object& object : requests_.InNamespace(request.ns)) {
    // Not parsed as a whole, because there may be thousands. A request that was refused, or only
    // preflights, records nothing.
    const kube::Json& status = kube::Member(*object, "status");
    const kube::Json& attempt = kube::Member(status, "attempt");
    if (!attempt.is_number_integer() || attempt <= 0 ||
        kube::TextOf(kube::Member(*object, "metadata"), "name") == request.name ||
        kube::Member(kube::Member(*object, "spec"), "preflightOnly") == true)
      continue;
    const std::optional<WallTime> end = kube::ReadTime(status, "completionTime");
    if (end && policy::CanHaveEnded(*end, clock_.WallNow()))
      others.last_end = std::max(others.last_end, end);
    else if (!end && !kube::ReadTime(status, "retryTime"))
      ++others.active;
  }
  return others;
}

absl::StatusOr<std::vector<policy::ProfilePolicy>> KubeGatekeeper::ReadPolicies(MonoTime deadline) {
  ASSIGN_OR_RETURN(std::vector<policy::ProfilePolicy> policies,
                   ListPolicies(client_, deadline - clock_.MonoNow()));
  Nanos longest{0};
  for (const policy::ProfilePolicy& policy : policies)
    longest = std::max(longest, policy.min_interval.value_or(Nanos{0}));
  MutexLock lock(&mutex_);
  longest_interval_ = longest;
  return policies;
}

absl::StatusOr<KubeGatekeeper::Labels> KubeGatekeeper::ReadLabels(const std::string& ns,
                                                                  MonoTime deadline) {
  return NamespaceLabels(client_, ns, deadline - clock_.MonoNow());
}

bool KubeGatekeeper::MayReadAgain(MonoTime now) {
  if (failed_ && now - *failed_ <= kCacheAge) return false;
  failed_ = now;  // Counts as failed until the read succeeds.
  return true;
}

absl::StatusOr<std::vector<policy::ProfilePolicy>> KubeGatekeeper::RecentPolicies() {
  MutexLock lock(&recent_mutex_);
  const MonoTime now = clock_.MonoNow();
  if (policies_ && now - policies_->read <= kCacheAge) return policies_->value;
  if (!MayReadAgain(now)) return absl::UnavailableError("the policies could not be read");
  ASSIGN_OR_RETURN(std::vector<policy::ProfilePolicy> policies,
                   ReadPolicies(now + kCacheReadLimit));
  failed_.reset();
  policies_ = {std::move(policies), now};
  return policies_->value;
}

absl::StatusOr<KubeGatekeeper::Labels> KubeGatekeeper::RecentLabels(const std::string& ns) {
  MutexLock lock(&recent_mutex_);
  const MonoTime now = clock_.MonoNow();
  std::erase_if(labels_, [now](const auto& entry) { return now - entry.second.read > kCacheAge; });
  if (const auto found = labels_.find(ns); found != labels_.end()) return found->second.value;
  if (!MayReadAgain(now)) return absl::UnavailableError("the namespace could not be read");
  absl::StatusOr<Labels> labels = ReadLabels(ns, now + kCacheReadLimit);
  // A namespace that is gone says nothing about the others.
  if (labels.ok() || absl::IsNotFound(labels.status())) failed_.reset();
  RETURN_IF_ERROR(labels.status());
  return (labels_[ns] = {*std::move(labels), now}).value;
}

}  // namespace strobe::access
