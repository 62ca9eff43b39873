#include "operator/admission/namespace_limits.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/text/quantity.h"
#include "operator/base/json_fields.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

QuotaScope ScopeOf(const Json& requirement) {
  QuotaScope scope{.name = kube::TextOf(requirement, "scopeName"),
                   .op = kube::TextOf(requirement, "operator")};
  const Json& values = kube::Member(requirement, "values");
  for (std::size_t i = 0; values.is_array() && i < values.size(); ++i) {
    if (values[i].is_string()) scope.values.push_back(values[i].get<std::string>());
  }
  return scope;
}

}  // namespace

std::optional<double> AmountOf(const kube::Json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  if (!quantity.is_string()) return std::nullopt;
  const std::string& text = quantity.get_ref<const std::string&>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::optional<double> unit =
      ParseUnit({end, static_cast<std::size_t>(text.data() + text.size() - end)});
  return unit ? std::optional(value * *unit) : std::nullopt;
}

Amounts AmountsOf(const kube::Json& list) {
  Amounts amounts;
  if (!list.is_object()) return amounts;
  for (const auto& [resource, quantity] : list.items()) {
    if (const std::optional<double> amount = AmountOf(quantity)) amounts[resource] = *amount;
  }
  return amounts;
}

std::vector<LimitRule> ParseLimitRange(const kube::Json& object) {
  std::vector<LimitRule> rules;
  const kube::Json& limits = kube::Member(kube::Member(object, "spec"), "limits");
  for (std::size_t i = 0; limits.is_array() && i < limits.size(); ++i) {
    const std::string type = kube::TextOf(limits[i], "type");
    if (type != "Container" && type != "Pod") continue;
    rules.push_back({.whole_pod = type == "Pod",
                     .min = AmountsOf(kube::Member(limits[i], "min")),
                     .max = AmountsOf(kube::Member(limits[i], "max")),
                     .max_ratio = AmountsOf(kube::Member(limits[i], "maxLimitRequestRatio")),
                     .defaults = AmountsOf(kube::Member(limits[i], "default"))});
  }
  return rules;
}

Quota ParseQuota(const kube::Json& object) {
  Quota quota;
  quota.name = kube::TextOf(kube::Member(object, "metadata"), "name");
  // The API server judges by the status, which the quota controller writes.
  const kube::Json& status = kube::Member(object, "status");
  quota.hard = AmountsOf(kube::Member(status, "hard"));
  quota.used = AmountsOf(kube::Member(status, "used"));
  // The scopes are in the specification, and all of both lists must hold.
  const kube::Json& scopes = kube::Member(kube::Member(object, "spec"), "scopes");
  for (std::size_t i = 0; scopes.is_array() && i < scopes.size(); ++i)
    quota.scopes.push_back({scopes[i].is_string() ? scopes[i].get<std::string>() : "", "Exists"});
  const kube::Json& selected =
      kube::Member(kube::Member(kube::Member(object, "spec"), "scopeSelector"), "matchExpressions");
  for (std::size_t i = 0; selected.is_array() && i < selected.size(); ++i)
    quota.scopes.push_back(ScopeOf(selected[i]));
  return quota;
}

}  // namespace strobe::admission
