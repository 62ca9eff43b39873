#include "operator/admission/sidecar_resources.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "operator/admission/annotation_values.h"
#include "operator/admission/namespace_limits.h"
#include "operator/admission/resource_range.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

// The container's log needs this much; it counts as ephemeral storage beside the spool.
constexpr double kLogRoom = 64 * kMebi;
// The sidecar's CPU in a Guaranteed pod where the settings request none.
constexpr char kGuaranteedCpu[] = "50m";

bool SameQuantity(const Json& a, const Json& b) {
  const std::optional<double> left = AmountOf(a), right = AmountOf(b);
  return left && right ? *left == *right : a == b;
}

// True if requests equal limits in all containers. The sidecar's must then be equal too, or the pod
// would lose its QoS class Guaranteed and with it its CPU pinning.
bool IsGuaranteed(const Json& spec) {
  for (const Json* container : job::OtherContainers(spec)) {
    const Json& resources = kube::Member(*container, "resources");
    for (const char* kind : {"cpu", "memory"}) {
      const Json& limit = kube::Member(kube::Member(resources, "limits"), kind);
      const Json& request = kube::Member(kube::Member(resources, "requests"), kind);
      // A limit of 0 is none (ComputePodQOS).
      if (limit.is_null() || AmountOf(limit) == 0) return false;
      if (!request.is_null() && !SameQuantity(request, limit)) return false;
    }
  }
  return true;
}

bool HasPodLevelResources(const Json& spec) { return !kube::Member(spec, "resources").empty(); }

// What settings and annotations ask for, as quantities.
struct Requested {
  std::string cpu{}, memory{}, memory_limit{};
  bool guaranteed = false;  // Requests must equal limits.
};

// A request of 0 in a Guaranteed pod costs the pod its class: each of its containers must have
// limits of CPU and memory that equal its requests (ComputePodQOS in
// pkg/apis/core/v1/helper/qos/qos.go of Kubernetes 1.34). Therefore only the pod's own annotations
// can ask for that, and not settings that are about all pods.
Requested WhatIsAsked(const Json& spec, const InjectionSettings& settings,
                      PodAnnotations& annotations, std::vector<std::string>& warnings) {
  Requested asked;
  asked.guaranteed = !HasPodLevelResources(spec) && IsGuaranteed(spec);
  const std::string cpu = annotations.Get(
      "cpu", "", [](const std::string& text) { return IsZero(text) || IsCpu(text); },
      "0 or at least 1m, such as 100m");
  const std::string memory =
      annotations.Get("memory", "", IsSidecarMemory, "at least 32Mi, such as 512Mi");
  std::string request = annotations.Get(
      "memory-request", "",
      [](const std::string& text) { return ParseQuantity(text).value_or(-1) >= 0; },
      "a quantity such as 128Mi, or 0");
  asked.memory_limit = memory.empty() ? settings.memory_limit : memory;
  if (asked.guaranteed && (IsZero(cpu) || IsZero(request))) {
    asked.guaranteed = false;
    warnings.emplace_back(
        "the sidecar requests less than its limits, as the pod's annotations ask for; the pod is "
        "therefore Burstable instead of Guaranteed, and its containers get no CPUs of their own");
  }
  if (!request.empty() && asked.guaranteed) {
    annotations.Ignore("memory-request", request,
                       "must be 0 in a Guaranteed pod, where requests equal limits");
    request.clear();
  } else if (ParseQuantity(request).value_or(0) > ParseQuantity(asked.memory_limit).value_or(0)) {
    annotations.Ignore("memory-request", request, "must be at most the sidecar's memory limit");
    request.clear();
  }
  asked.cpu = cpu.empty() ? settings.cpu : cpu;
  if (asked.guaranteed && IsZero(asked.cpu)) asked.cpu = kGuaranteedCpu;
  asked.memory = !request.empty() ? request : memory.empty() ? settings.memory : memory;
  return asked;
}

// What is asked for of one resource, as quantities.
struct Preference {
  std::string request{}, limit{};  // Empty = none.
  double least = 0;                // A sidecar with less cannot work.
};

// What is asked for of one resource, and where the namespace and the settings let it lie.
struct Part {
  const char* resource = "";
  Preference preference{};
  ResourceRange range{};
};

Part CpuPart(const Json& spec, const InjectionSettings& settings, const Requested& asked,
             ResourceRange range) {
  Preference preference{.request = asked.cpu, .least = kMinCpu};
  if (settings.always_limit_cpu && !range.demanded) {
    range.demanded = true;
    // Container resources that nobody but a policy asks for must not make the API server refuse the
    // pod: requests add up to at most the pod's own, and no limit exceeds the pod's own.
    if (HasPodLevelResources(spec)) {
      preference.request = "0";
      const Json& own =
          kube::Member(kube::Member(kube::Member(spec, "resources"), "limits"), "cpu");
      range.max_limit = std::min(range.max_limit, AmountOf(own).value_or(range.max_limit));
    }
  }
  if (range.demanded && !asked.guaranteed) preference.limit = settings.cpu_limit;
  return {"cpu", std::move(preference), range};
}

// Returns `quantity` itself if it equals the amount, so that people see what they wrote; otherwise
// a new text.
std::string TextFor(double amount, const std::string& quantity, bool cores) {
  if (ParseQuantity(quantity) == amount) return quantity;
  if (cores) return StrCat(static_cast<long long>(std::llround(std::floor(amount * 1000))), "m");
  return StrCat(static_cast<long long>(std::llround(std::floor(amount))));
}

// Chooses request and limit of one resource. Returns false if nothing fits. A sidecar with no
// request and no limit may use what others leave.
bool Choose(const std::string& resource, const Preference& preference, const ResourceRange& range,
            bool guaranteed, Json& requests, Json& limits) {
  const auto amount = [](const std::string& text) { return ParseQuantity(text).value_or(0); };
  std::optional<ChosenAmounts> chosen = ChooseAmounts(
      range, amount(preference.request),
      preference.limit.empty() ? std::nullopt : std::optional(amount(preference.limit)),
      guaranteed);
  if (!chosen) return false;
  const bool bounded = chosen->limit || !IsZero(preference.request);
  if (bounded && chosen->limit.value_or(chosen->request) < preference.least) return false;
  const bool cores = resource == "cpu";
  requests[resource] = TextFor(chosen->request, preference.request, cores);
  if (chosen->limit) limits[resource] = TextFor(*chosen->limit, preference.limit, cores);
  // Equal amounts get equal texts, because people compare them.
  if (chosen->limit && *chosen->limit == chosen->request) requests[resource] = limits[resource];
  return true;
}

bool AnyLimitsStorage(const Json& spec) {
  const std::vector<const Json*> containers = job::OtherContainers(spec);
  return std::any_of(containers.begin(), containers.end(), [](const Json* container) {
    return !kube::Member(kube::Member(kube::Member(*container, "resources"), "limits"), kStorage)
                .is_null();
  });
}

std::string CannotFit(const char* resource) {
  return StrCat("the namespace's LimitRange or ResourceQuota leaves no room for the sidecar's ",
                resource);
}

// The kubelet evicts a pod that uses more than the sum of its containers' limits of ephemeral
// storage, emptyDirs included (podEphemeralStorageLimitEviction in pkg/kubelet/eviction of
// Kubernetes 1.34). Without a limit of its own the spool would use up the trainer's.
void AddStorage(const Json& spec, const ResourceRange& range, SidecarResources& made,
                std::vector<std::string>& warnings) {
  if (!range.demanded && !AnyLimitsStorage(spec)) return;
  const double spool = static_cast<double>(ParseBytes(made.spool_size).value_or(0));
  const std::string wanted = StrCat(static_cast<long long>(std::llround(spool + kLogRoom)));
  Json requests, limits;
  if (!Choose(kStorage, {wanted, wanted, 2 * kLogRoom}, range, /*guaranteed=*/false, requests,
              limits)) {
    made.cannot = CannotFit("ephemeral storage");
    return;
  }
  made.resources["requests"].update(requests);
  made.resources["limits"].update(limits);
  const double room = *AmountOf(limits[kStorage]) - kLogRoom;
  if (room >= spool) return;
  made.spool_size = StrCat(static_cast<long long>(room));
  warnings.push_back(StrCat("the sidecar's spool has only ", made.spool_size,
                            " bytes, because the namespace limits ephemeral storage"));
}

}  // namespace

SidecarResources ChooseResources(const Json& spec, const InjectionSettings& settings,
                                 const NamespaceLimits& limits, PodAnnotations& annotations,
                                 std::vector<std::string>& warnings) {
  SidecarResources made;
  made.spool_size = StrCat(ParseBytes(annotations.Get("spool-size", settings.spool_size, IsBytes,
                                                      "a quantity such as 2Gi"))
                               .value_or(0));
  const RangesOf ranges(spec, limits);
  const Requested asked = WhatIsAsked(spec, settings, annotations, warnings);
  made.cannot = ranges.WhyRefused();
  if (!made.cannot.empty()) return made;
  const std::string& most = asked.memory_limit;
  // Pod-level resources bound the whole pod whatever its containers request, so container resources
  // could only exceed them. A LimitRange or a policy demands values of the containers nevertheless.
  const bool pod_level = HasPodLevelResources(spec);
  Json requests = Json::object(), bounds = Json::object();
  for (const auto& [resource, preference, range] :
       {CpuPart(spec, settings, asked, ranges("cpu")),
        Part{"memory", {asked.memory, most, kMinSidecarMemory}, ranges("memory")}}) {
    if (pod_level && !range.demanded) continue;
    if (!Choose(resource, preference, range, asked.guaranteed, requests, bounds))
      made.cannot = CannotFit(resource);
  }
  if (!made.cannot.empty()) return made;
  if (!pod_level && bounds["memory"] != most)
    warnings.push_back(StrCat("the sidecar's memory limit is ", kube::TextOf(bounds, "memory"),
                              " instead of ", most,
                              ", because of the namespace's LimitRange or ResourceQuota"));
  if (!requests.empty()) made.resources = {{"requests", requests}, {"limits", bounds}};
  AddStorage(spec, ranges(kStorage), made, warnings);
  return made;
}

}  // namespace strobe::admission
