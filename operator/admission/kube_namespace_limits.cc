#include "operator/admission/kube_namespace_limits.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/access/series_policies.h"
#include "operator/admission/namespace_limits.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"

namespace strobe::admission {
namespace {

// Short, because a quota's use changes with each pod that is created.
constexpr Nanos kRememberFor = std::chrono::seconds(2);
constexpr Nanos kRememberFailureFor = std::chrono::seconds(5);
// What was read before is better than nothing when the namespace cannot be read now.
constexpr Nanos kBetterThanNothing = std::chrono::seconds(30);
constexpr std::size_t kMaxNamespace = 63;  // RFC 1123; names are remembered.
constexpr std::size_t kMaxReadNamespaces = 256, kMaxEntries = 256;

// Reasons of waiting that do not pass by themselves (pkg/kubelet/images/types.go and
// pkg/kubelet/container/sync_result.go of Kubernetes 1.34).
constexpr std::array<std::string_view, 9> kStuckReasons = {
    "ErrImagePull",      "ImagePullBackOff",  "InvalidImageName",
    "ErrImageNeverPull", "CrashLoopBackOff",  "CreateContainerError",
    "RunContainerError", "ImageInspectError", "CreateContainerConfigError"};

// A registry that does not answer for some seconds is no reason to start pods without a sidecar.
// Within this time the kubelet tries again twice, after 10 s and after 20 s more
// (imageBackOffPeriod in pkg/kubelet/kubelet.go of Kubernetes 1.34).
constexpr Nanos kPatienceWithPulls = std::chrono::seconds(60);

bool IsPullFailure(const std::string& reason) {
  return reason == "ErrImagePull" || reason == "ImagePullBackOff";
}

// When it became the sidecar's turn to start: when the kubelet took the pod or, if that is later,
// when an init container before the sidecar ended or, as a native sidecar, started. The status of a
// container does not tell since when it waits.
WallTime SidecarsStart(const kube::Json& pod) {
  WallTime since{};
  const auto after = [&since](const kube::Json& object, const char* field) {
    WallTime time;
    if (!ParseRfc3339(kube::TextOf(object, field), time)) return false;
    since = std::max(since, time);
    return true;
  };
  const kube::Json& status = kube::Member(pod, "status");
  if (!after(status, "startTime")) after(kube::Member(pod, "metadata"), "creationTimestamp");
  for (const kube::Json& container : kube::Member(status, "initContainerStatuses")) {
    if (kube::TextOf(container, "name") == kube::kSidecarContainer) continue;
    after(kube::Member(kube::Member(container, "state"), "terminated"), "finishedAt");
    after(kube::Member(kube::Member(container, "state"), "running"), "startedAt");
  }
  return since;
}

// What AddIfStuck reads of a pod, whose writer may make the rest large.
const JsonParts& PartsOfStuck() {
  static const JsonParts kParts{.keep = [](const std::vector<std::string>& path) {
    constexpr std::array<std::string_view, 6> kNames = {
        "name",           "creationTimestamp", "deletionTimestamp",
        "initContainers", "startTime",         "initContainerStatuses"};
    return path.size() != 2 || std::find(kNames.begin(), kNames.end(), path[1]) != kNames.end();
  }};
  return kParts;
}

void AddIfStuck(const kube::Json& pod, WallTime now, NamespaceLimits& limits) {
  const kube::Json& states = kube::Member(kube::Member(pod, "status"), "initContainerStatuses");
  const kube::Json& containers = kube::Member(kube::Member(pod, "spec"), "initContainers");
  const auto state = kube::Find(states, kube::kSidecarContainer);
  const auto container = kube::Find(containers, kube::kSidecarContainer);
  // A pod that is being deleted, as on a node that is gone, tells nothing of the next one.
  if (!kube::TextOf(kube::Member(pod, "metadata"), "deletionTimestamp").empty()) return;
  if (!state || !container || kube::Member(states[*state], "started") == kube::Json(true)) return;
  const std::string reason =
      kube::TextOf(kube::Member(kube::Member(states[*state], "state"), "waiting"), "reason");
  if (std::find(kStuckReasons.begin(), kStuckReasons.end(), reason) == kStuckReasons.end()) return;
  if (IsPullFailure(reason) && now - SidecarsStart(pod) < kPatienceWithPulls) return;
  limits.stuck.push_back({kube::TextOf(kube::Member(pod, "metadata"), "name"),
                          kube::TextOf(containers[*container], "image"), reason});
}

// True if no invented namespace could have these limits. A policy gives something only to
// namespaces whose labels could be read.
bool MustExist(const NamespaceLimits& limits) {
  return !limits.rules.empty() || !limits.quotas.empty() || limits.sidecar_user ||
         !limits.users_differ.empty() || limits.flight_recorder_devices;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const NamespaceLimits>> KubeNamespaceLimits::Read(
    const std::string& ns, Nanos within, const std::string& caller) {
  if (ns.size() > kMaxNamespace) return absl::InvalidArgumentError("no namespace has such a name");
  const MonoTime now = clock_.MonoNow();
  {
    MutexLock lock(&mutex_);
    if (std::optional<Limits> remembered = Remembered(ns, now)) return *std::move(remembered);
    Limits old = Old(ns, now);
    const bool is_being_read = reading_.contains(ns);
    if ((is_being_read && old.ok()) || !waiting_.Take(caller)) return old;
    if (is_being_read) {
      mutex_.AwaitFor(
          within, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !reading_.contains(ns); });
      waiting_.GiveBack(caller);
      return Remembered(ns, clock_.MonoNow()).value_or(std::move(old));
    }
    if (!TakeRead(ns, caller, now)) {
      waiting_.GiveBack(caller);
      return old;
    }
    reading_.insert(ns);
  }
  Limits limits = absl::InternalError("the namespace's limits could not be read");
  (void)RunGuarded("namespace_limits", [&] { limits = ReadNow(ns, now + within); });
  MutexLock lock(&mutex_);
  reading_.erase(ns);
  waiting_.GiveBack(caller);
  Remember(ns, {limits.status(), limits.ok() ? *limits : nullptr, clock_.MonoNow(),
                limits.ok() && MustExist(**limits)});
  return limits;
}

std::optional<KubeNamespaceLimits::Limits> KubeNamespaceLimits::Remembered(const std::string& ns,
                                                                           MonoTime now) const {
  const auto found = cached_.find(ns);
  if (found == cached_.end()) return std::nullopt;
  const CachedLimits& known = found->second;
  if (now - known.read >= (known.failure.ok() ? kRememberFor : kRememberFailureFor))
    return std::nullopt;
  if (!known.failure.ok()) return known.failure;
  return known.limits;
}

KubeNamespaceLimits::Limits KubeNamespaceLimits::Old(const std::string& ns, MonoTime now) const {
  const auto found = cached_.find(ns);
  if (found != cached_.end() && found->second.limits != nullptr &&
      now - found->second.read < kBetterThanNothing)
    return found->second.limits;
  return absl::ResourceExhaustedError("too many namespaces are being read already");
}

bool KubeNamespaceLimits::TakeRead(const std::string& ns, const std::string& caller, MonoTime now) {
  if (const auto found = cached_.find(ns); found != cached_.end() && found->second.exists) {
    kept_.Refill(now);
    if (kept_.Take()) return true;
  }
  return reads_.Take(caller, now);
}

absl::StatusOr<std::shared_ptr<const NamespaceLimits>> KubeNamespaceLimits::ReadNow(
    const std::string& ns, MonoTime deadline) {
  const std::string path = StrCat("/api/v1/namespaces/", UrlEncode(ns), "/");
  // Version 0 is answered from the API server's cache.
  constexpr std::string_view kCached = "?resourceVersion=0";
  auto limits = std::make_shared<NamespaceLimits>();
  const auto left = [&] { return deadline - clock_.MonoNow(); };
  RETURN_IF_ERROR(client_
                      .GetItems(
                          StrCat(path, "limitranges", kCached),
                          [&](const kube::Json& object) {
                            if (limits->rules.size() >= kMaxEntries) return;
                            for (LimitRule& rule : ParseLimitRange(object))
                              limits->rules.push_back(std::move(rule));
                          },
                          left())
                      .status());
  RETURN_IF_ERROR(client_
                      .GetItems(
                          // The use of quotas must be fresh.
                          StrCat(path, "resourcequotas"),
                          [&](const kube::Json& object) {
                            if (limits->quotas.size() < kMaxEntries)
                              limits->quotas.push_back(ParseQuota(object));
                          },
                          left())
                      .status());
  RETURN_IF_ERROR(ReadPolicies(ns, deadline, *limits));
  // Injection can do without the pods, which may be thousands that wait for nodes: those are not
  // asked for.
  const absl::StatusOr<kube::Json> pods = client_.GetItems(
      StrCat(path, "pods", kCached, "&limit=500&labelSelector=", kube::kInjectedLabel,
             "%3Dtrue&fieldSelector=status.phase%3DPending%2Cspec.nodeName%21%3D"),
      [&](const kube::Json& pod) {
        if (limits->stuck.empty()) AddIfStuck(pod, clock_.WallNow(), *limits);
      },
      left(), PartsOfStuck());
  if (!pods.ok()) {
    LogWarning("pods with a sidecar that cannot start are not known",
               {{"namespace", ns}, {"error", MessageOf(pods.status())}});
  }
  return limits;
}

absl::Status KubeNamespaceLimits::ReadPolicies(const std::string& ns, MonoTime deadline,
                                               NamespaceLimits& limits) {
  ASSIGN_OR_RETURN(const std::vector<policy::ProfilePolicy> policies,
                   access::ListPolicies(client_, deadline - clock_.MonoNow()));
  if (std::none_of(policies.begin(), policies.end(), [](const policy::ProfilePolicy& policy) {
        return policy.sidecar_user.has_value() || policy.flight_recorder_devices;
      }))
    return absl::OkStatus();
  policy::NamespaceFacts facts{.name = ns};
  ASSIGN_OR_RETURN(facts.labels, access::NamespaceLabels(client_, ns, deadline - clock_.MonoNow()));
  const absl::StatusOr<std::optional<kube::SidecarUser>> user =
      policy::SidecarUserOf(policies, facts);
  if (user.ok())
    limits.sidecar_user = *user;
  else
    limits.users_differ = MessageOf(user.status());
  limits.flight_recorder_devices = policy::AllowsFlightRecorderDevices(policies, facts);
  return absl::OkStatus();
}

void KubeNamespaceLimits::Remember(const std::string& ns, CachedLimits known) {
  if (const auto before = cached_.find(ns); before != cached_.end()) {
    known.exists |= before->second.exists;
  } else if (cached_.size() >= kMaxReadNamespaces) {
    cached_.erase(
        std::min_element(cached_.begin(), cached_.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second.exists, a.second.read) <
                 std::pair(b.second.exists, b.second.read);
        }));
  }
  cached_[ns] = std::move(known);
}

}  // namespace strobe::admission
