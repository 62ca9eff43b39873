#include "operator/trigger/trigger_table.h"

#include <utility>

#include "common/base/strings.h"
#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {

void Table::Put(ProfileTrigger trigger) {
  const std::string key = StrCat(trigger.ns, "/", trigger.name);
  const auto shared = std::make_shared<const ProfileTrigger>(std::move(trigger));
  MutexLock lock(&mutex_);
  RemoveLocked(key);
  by_key_[key] = shared;
  by_namespace_[shared->alerts.namespace_label][shared->ns][key] = shared;
  if (shared->signs.any()) by_signs_[shared->ns][key] = shared;
}

void Table::Remove(const std::string& key) {
  MutexLock lock(&mutex_);
  RemoveLocked(key);
}

void Table::RemoveLocked(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const ProfileTrigger& trigger = *found->second;
  auto& namespaces = by_namespace_[trigger.alerts.namespace_label];
  auto& triggers = namespaces[trigger.ns];
  triggers.erase(key);
  if (triggers.empty()) namespaces.erase(trigger.ns);
  if (namespaces.empty()) by_namespace_.erase(trigger.alerts.namespace_label);
  if (const auto asking = by_signs_.find(trigger.ns); asking != by_signs_.end()) {
    asking->second.erase(key);
    if (asking->second.empty()) by_signs_.erase(asking);
  }
  by_key_.erase(found);
}

std::vector<Table::Trigger> Table::AskingForSigns(const std::string& ns) const {
  std::vector<Trigger> asking;
  MutexLock lock(&mutex_);
  const auto found = by_signs_.find(ns);
  if (found == by_signs_.end()) return asking;
  for (const auto& [key, trigger] : found->second) asking.push_back(trigger);
  return asking;
}

std::vector<Table::Trigger> Table::Matching(const Alert& alert) const {
  std::vector<Trigger> matching;
  MutexLock lock(&mutex_);
  for (const auto& [label, namespaces] : by_namespace_) {
    const auto value = alert.labels.find(label);
    if (value == alert.labels.end()) continue;
    const auto triggers = namespaces.find(value->second);
    if (triggers == namespaces.end()) continue;
    for (const auto& [key, trigger] : triggers->second)
      if (MatchesAlert(*trigger, alert)) matching.push_back(trigger);
  }
  return matching;
}

}  // namespace strobe::trigger
