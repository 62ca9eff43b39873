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

// Removes what nobody uses of Strobe's objects, which their writers may make as large as they like:
// labels and annotations that are not Strobe's, owners of other kinds, and managedFields.
void Trim(nlohmann::json& object);
// About how many bytes of memory the value takes.
std::size_t MemoryOf(const nlohmann::json& value);

// "namespace/name".
std::string KeyOf(const nlohmann::json& object);
std::string NamespaceOf(const std::string& key);

class ObjectCache {
 public:
  // What the objects of a namespace, or of all of them, take.
  struct Use {
    std::size_t bytes = 0;      // See MemoryOf.
    std::size_t open = 0;       // Requests that have not finished.
    std::size_t automatic = 0;  // Requests that a schedule or trigger has started.
  };
  Object Get(const std::string& key) const;  // Null if there is none.
  std::vector<std::string> Keys() const;
  std::vector<Object> InNamespace(const std::string& ns) const;
  std::size_t size() const;
  Use UseOf(const std::string& ns) const;
  Use all() const;
  bool filled() const;  // Whether it has ever held all objects: ReplaceAll was called.

  void Put(Object object);
  void Remove(const std::string& key);
  // Replaces all objects and returns the keys of the old and the new ones.
  std::vector<std::string> ReplaceAll(std::vector<Object> objects);

 private:
  struct Entry {
    Object object{};
    Use use{};
  };
  void Count(const std::string& key, const Use& use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Discount(const std::string& key, const Use& use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Entry> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Use> uses_ ABSL_GUARDED_BY(mutex_);  // By namespace.
  Use all_ ABSL_GUARDED_BY(mutex_);
  bool filled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::kube
