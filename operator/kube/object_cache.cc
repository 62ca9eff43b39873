#include "operator/kube/object_cache.h"

#include <set>

namespace strobe::kube {

std::string KeyOf(const nlohmann::json& object) {
  const nlohmann::json& metadata = object.at("metadata");
  return metadata.value("namespace", "") + "/" + metadata.value("name", "");
}

Object ObjectCache::Get(const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<std::string> ObjectCache::Keys() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> keys;
  keys.reserve(objects_.size());
  for (const auto& [key, object] : objects_) keys.push_back(key);
  return keys;
}

std::vector<Object> ObjectCache::InNamespace(const std::string& ns) const {
  const std::string prefix = ns + "/";
  MutexLock lock(&mutex_);
  std::vector<Object> objects;
  for (auto it = objects_.lower_bound(prefix); it != objects_.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    objects.push_back(it->second);
  }
  return objects;
}

std::size_t ObjectCache::size() const {
  MutexLock lock(&mutex_);
  return objects_.size();
}

bool ObjectCache::filled() const {
  MutexLock lock(&mutex_);
  return filled_;
}

void ObjectCache::Put(Object object) {
  std::string key = KeyOf(*object);
  MutexLock lock(&mutex_);
  objects_[std::move(key)] = std::move(object);
}

void ObjectCache::Remove(const std::string& key) {
  MutexLock lock(&mutex_);
  objects_.erase(key);
}

std::vector<std::string> ObjectCache::ReplaceAll(std::vector<Object> objects) {
  std::map<std::string, Object> fresh;
  std::set<std::string> keys;
  for (Object& object : objects) {
    std::string key = KeyOf(*object);
    keys.insert(key);
    fresh[std::move(key)] = std::move(object);
  }
  MutexLock lock(&mutex_);
  for (const auto& [key, object] : objects_) keys.insert(key);
  objects_.swap(fresh);
  filled_ = true;
  return {keys.begin(), keys.end()};
}

}  // namespace strobe::kube
