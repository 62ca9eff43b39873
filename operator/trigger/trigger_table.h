// The triggers that exist, found by the alerts that concern them. Safe for concurrent use.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {

class Table {
 public:
  using Trigger = std::shared_ptr<const ProfileTrigger>;

  void Put(ProfileTrigger trigger);
  void Remove(const std::string& key);  // "namespace/name".
  // The triggers that the alert matches.
  std::vector<Trigger> Matching(const Alert& alert) const;
  // The triggers of the namespace that ask workers for signs.
  std::vector<Trigger> AskingForSigns(const std::string& ns) const;

 private:
  void RemoveLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Trigger> by_key_ ABSL_GUARDED_BY(mutex_);
  // The triggers that ask for signs, by namespace and key.
  std::map<std::string, std::map<std::string, Trigger>> by_signs_ ABSL_GUARDED_BY(mutex_);
  // By the name of the label that has the namespace, the namespace, and the key. Nearly all
  // triggers read the same label, so that an alert looks at those of its own namespace only.
  std::map<std::string, std::map<std::string, std::map<std::string, Trigger>>> by_namespace_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::trigger
