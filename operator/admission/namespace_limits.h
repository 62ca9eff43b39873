// What ResourceQuotas, LimitRanges and ProfilePolicies demand of a namespace's pods, and how the
// first two are read. Never throws: what cannot be read limits nothing.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/base/sidecar_user.h"

namespace strobe::admission {

// Quantities by resource: cores or bytes.
using Amounts = std::map<std::string, double>;

// One entry of a LimitRange.
struct LimitRule {
  bool whole_pod = false;  // It is about the sums of a pod's containers, else about each container.
  Amounts min{}, max{}, max_ratio{};  // max_ratio: of a limit to its request.
  Amounts defaults{};                 // The limits of containers that set none.
};

// An entry of a ResourceQuota's scopeSelector, in the API's own words. An entry of its `scopes` is
// one with the operator Exists.
struct QuotaScope {
  std::string name{}, op{};
  std::vector<std::string> values{};
};

// One ResourceQuota, for resources such as "limits.cpu".
struct Quota {
  std::string name{};
  Amounts hard{}, used{};
  std::vector<QuotaScope> scopes{};  // It counts the pods that match all of them.
};

struct NamespaceLimits {
  std::vector<LimitRule> rules{};
  std::vector<Quota> quotas{};
  // A pod whose trainer waits for a sidecar that cannot start; if its image cannot be pulled, for
  // a minute at least.
  struct StuckPod {
    std::string name{};             // The pod's name.
    std::string image{}, reason{};  // The sidecar's image, and why it waits: ImagePullBackOff.
  };
  std::vector<StuckPod> stuck{};
  // What ProfilePolicies give to sidecars of the namespace.
  std::optional<kube::SidecarUser> sidecar_user{};
  std::string
      users_differ{};  // Why `sidecar_user` is not set although policies give one; or empty.
  // Whether pods may have their GPUs recorded at all times.
  bool flight_recorder_devices = false;
};

// Converts ResourceQuota and LimitRange objects to core values. Never throws: what cannot be read
// limits nothing.
std::vector<LimitRule> ParseLimitRange(const nlohmann::json& object);
Quota ParseQuota(const nlohmann::json& object);

// A quantity in any form that the API server stores, such as "1500m", "2e3" or a number.
std::optional<double> AmountOf(const nlohmann::json& quantity);
// The readable quantities of a resource list.
Amounts AmountsOf(const nlohmann::json& list);

}  // namespace strobe::admission
