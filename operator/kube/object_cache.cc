#include "operator/kube/object_cache.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "operator/objects/run_template.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

// Far more than any object has of Strobe's own labels, annotations and owners.
constexpr std::size_t kMaxOwnEntries = 32, kMaxOwners = 4;
// A node of std::map with a name and a value, and what malloc adds.
constexpr std::size_t kMemberBytes = 112;

void TrimEntries(Json& metadata, const char* field) {
  const auto found = metadata.find(field);
  if (found == metadata.end() || !found->is_object()) return;
  for (auto entry = found->begin(); entry != found->end();)
    entry = entry.key().starts_with(kNamePrefix) ? std::next(entry) : found->erase(entry);
  while (found->size() > kMaxOwnEntries) found->erase(std::prev(found->end()));
}

void TrimOwners(Json& metadata) {
  const auto found = metadata.find("ownerReferences");
  if (found == metadata.end() || !found->is_array()) return;
  Json kept = Json::array();
  for (Json& owner : *found) {
    const std::string kind = TextOf(owner, "kind");
    if (kept.size() < kMaxOwners && (kind == objects::KindName(CreatorKind::kSchedule) ||
                                     kind == objects::KindName(CreatorKind::kTrigger)))
      kept.push_back(std::move(owner));
  }
  *found = std::move(kept);
}

// Whether a schedule or trigger has started it. Anybody may set the labels; what the webhook has
// written of a user's own request names no creator.
bool IsAutomatic(const Json& metadata) {
  const Json& labels = Member(metadata, "labels");
  if (TextOf(labels, kScheduleLabel).empty() && TextOf(labels, kTriggerLabel).empty()) return false;
  const std::string stamp = TextOf(Member(metadata, "annotations"), kRequesterAnnotation);
  return stamp.empty() || NamesCreator(stamp);
}

ObjectCache::Use UseBy(const Json& object) {
  ObjectCache::Use use{.bytes = MemoryOf(object)};
  use.open = objects::IsOpen(object) ? 1 : 0;
  use.automatic = IsAutomatic(Member(object, "metadata")) ? use.open : 0;
  return use;
}

}  // namespace

std::string NamespaceOf(const std::string& key) { return key.substr(0, key.find('/')); }

void Trim(Json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return;
  metadata->erase("managedFields");
  TrimEntries(*metadata, "labels");
  TrimEntries(*metadata, "annotations");
  TrimOwners(*metadata);
}

std::size_t MemoryOf(const Json& value) {
  std::size_t bytes = sizeof(Json);
  if (value.is_string()) bytes += sizeof(std::string) + value.get_ref<const std::string&>().size();
  if (value.is_object())
    for (const auto& [name, member] : value.items())
      bytes += kMemberBytes + name.size() + MemoryOf(member);
  if (value.is_array())
    for (const Json& element : value) bytes += MemoryOf(element);
  return bytes;
}

std::string KeyOf(const Json& object) {
  const Json& metadata = object.at("metadata");
  return metadata.value("namespace", "") + "/" + metadata.value("name", "");
}

Object ObjectCache::Get(const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second.object;
}

std::vector<std::string> ObjectCache::Keys() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> keys;
  keys.reserve(objects_.size());
  for (const auto& [key, entry] : objects_) keys.push_back(key);
  return keys;
}

std::vector<Object> ObjectCache::InNamespace(const std::string& ns) const {
  const std::string prefix = ns + "/";
  MutexLock lock(&mutex_);
  std::vector<Object> objects;
  for (auto it = objects_.lower_bound(prefix); it != objects_.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    objects.push_back(it->second.object);
  }
  return objects;
}

std::size_t ObjectCache::size() const {
  MutexLock lock(&mutex_);
  return objects_.size();
}

ObjectCache::Use ObjectCache::UseOf(const std::string& ns) const {
  MutexLock lock(&mutex_);
  const auto found = uses_.find(ns);
  return found == uses_.end() ? Use{} : found->second;
}

ObjectCache::Use ObjectCache::all() const {
  MutexLock lock(&mutex_);
  return all_;
}

bool ObjectCache::filled() const {
  MutexLock lock(&mutex_);
  return filled_;
}

void ObjectCache::Count(const std::string& key, const Use& use) {
  for (Use* sum : {&uses_[NamespaceOf(key)], &all_}) {
    sum->bytes += use.bytes;
    sum->open += use.open;
    sum->automatic += use.automatic;
  }
}

void ObjectCache::Discount(const std::string& key, const Use& use) {
  const auto own = uses_.find(NamespaceOf(key));
  for (Use* sum : {&own->second, &all_}) {
    sum->bytes -= use.bytes;
    sum->open -= use.open;
    sum->automatic -= use.automatic;
  }
  if (own->second.bytes == 0) uses_.erase(own);
}

void ObjectCache::Put(Object object) {
  const std::string key = KeyOf(*object);
  const Use use = UseBy(*object);
  MutexLock lock(&mutex_);
  Entry& entry = objects_[key];
  if (entry.object != nullptr) Discount(key, entry.use);
  entry = {std::move(object), use};
  Count(key, use);
}

void ObjectCache::Remove(const std::string& key) {
  MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  Discount(key, found->second.use);
  objects_.erase(found);
}

std::vector<std::string> ObjectCache::ReplaceAll(std::vector<Object> objects) {
  std::map<std::string, Entry> fresh;
  std::set<std::string> keys;
  for (Object& object : objects) {
    std::string key = KeyOf(*object);
    keys.insert(key);
    const Use use = UseBy(*object);
    fresh[std::move(key)] = {std::move(object), use};
  }
  MutexLock lock(&mutex_);
  for (const auto& [key, entry] : objects_) keys.insert(key);
  objects_.swap(fresh);
  uses_.clear();
  all_ = {};
  for (const auto& [key, entry] : objects_) Count(key, entry.use);
  filled_ = true;
  return {keys.begin(), keys.end()};
}

}  // namespace strobe::kube
