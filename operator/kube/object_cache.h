// Caches the last known state of all objects of one type. Readers get whole objects and never see
// an empty cache in between, because a new list replaces everything in one step. Safe for
// concurrent use.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::kube {

using Object = std::shared_ptr<const nlohmann::json>;

// "namespace/name".
std::string KeyOf(const nlohmann::json& object);

class ObjectCache {
 public:
  Object Get(const std::string& key) const;  // Null if there is none.
  std::vector<std::string> Keys() const;
  std::vector<Object> InNamespace(const std::string& ns) const;
  std::size_t size() const;
  bool filled() const;  // Whether it has ever held all objects: ReplaceAll was called.

  void Put(Object object);
  void Remove(const std::string& key);
  // Replaces all objects and returns the keys of the old and the new ones.
  std::vector<std::string> ReplaceAll(std::vector<Object> objects);

 private:
  mutable Mutex mutex_;
  std::map<std::string, Object> objects_ ABSL_GUARDED_BY(mutex_);
  bool filled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::kube
