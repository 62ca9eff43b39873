#include "operator/base/condition.h"

#include <algorithm>
#include <utility>

#include "operator/base/json_fields.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

ConditionStatus ConditionStatusOf(const std::string& text) {
  return text == "True"    ? ConditionStatus::kTrue
         : text == "False" ? ConditionStatus::kFalse
                           : ConditionStatus::kUnknown;
}

const char* NameOf(ConditionStatus status) {
  return status == ConditionStatus::kTrue    ? "True"
         : status == ConditionStatus::kFalse ? "False"
                                             : "Unknown";
}

}  // namespace

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found =
      std::find_if(conditions.begin(), conditions.end(),
                   [type](const Condition& condition) { return condition.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

void SetSince(const std::vector<Condition>& before, WallTime now, Condition& condition) {
  const Condition* old = FindCondition(before, condition.type);
  const bool same = old != nullptr && old->status == condition.status;
  condition.since = same ? old->since : WholeSeconds(now);
}

void PutCondition(const std::vector<Condition>& before, WallTime now, Condition condition,
                  std::vector<Condition>& conditions) {
  SetSince(before, now, condition);
  std::erase_if(conditions,
                [&](const Condition& present) { return present.type == condition.type; });
  conditions.push_back(std::move(condition));
}

WallTime WholeSeconds(WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); }

std::vector<Condition> ReadConditions(const Json& status) {
  std::vector<Condition> conditions;
  for (const Json& entry : status.value("conditions", Json::array())) {
    Condition& condition = conditions.emplace_back();
    condition.type = entry.value("type", "");
    condition.status = ConditionStatusOf(entry.value("status", ""));
    condition.reason = entry.value("reason", "");
    condition.message = entry.value("message", "");
    condition.observed_generation = entry.value("observedGeneration", std::int64_t{0});
    condition.since = ReadTime(entry, "lastTransitionTime").value_or(WallTime{});
  }
  return conditions;
}

Json ConditionsToJson(const std::vector<Condition>& conditions) {
  Json json = Json::array();
  for (const Condition& condition : conditions) {
    json.push_back({{"type", condition.type},
                    {"status", NameOf(condition.status)},
                    {"reason", condition.reason},
                    {"message", condition.message},
                    {"observedGeneration", condition.observed_generation},
                    {"lastTransitionTime", FormatRfc3339(condition.since)}});
  }
  return json;
}

}  // namespace strobe::kube
