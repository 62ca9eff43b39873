#include "operator/kube/written_objects.h"

#include <memory>
#include <utility>

namespace strobe::kube {
namespace {

std::string VersionOf(const Json& object) {
  return object.at("metadata").value("resourceVersion", "");
}

}  // namespace

Object WrittenObjects::Get(const std::string& key) {
  Object object = cache_.Get(key);
  MutexLock lock(&mutex_);
  const auto written = written_.find(key);
  if (written == written_.end()) return object;
  if (object == nullptr || written->second.superseded.count(VersionOf(*object)) == 0)
    written_.erase(written);
  else
    object = written->second.object;
  return object;
}

void WrittenObjects::Remember(const std::string& version, Json object) {
  Trim(object);
  const std::string now = VersionOf(object);
  // A write without a change keeps the version.
  if (now == version) return;
  MutexLock lock(&mutex_);
  Written& written = written_[KeyOf(object)];
  written.superseded.insert(version);
  if (written.object != nullptr) written.superseded.insert(VersionOf(*written.object));
  written.superseded.erase(now);
  written.object = std::make_shared<const Json>(std::move(object));
}

}  // namespace strobe::kube
