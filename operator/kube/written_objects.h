// Serves what this process has written before the watch brings it: the last written versions, in
// front of a cache. Safe for concurrent use.
#pragma once
#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

class WrittenObjects {
 public:
  // `cache` must outlive it.
  explicit WrittenObjects(const ObjectCache& cache) : cache_(cache) {}

  Object Get(const std::string& key);  // Null if there is none.
  // `object` is the server's answer to a write that was based on `version`.
  void Remember(const std::string& version, Json object);

 private:
  // The last object written here, until the watch delivers it. Versions are opaque and only
  // compared for equality: the cache lags as long as it has a version that this write superseded.
  struct Written {
    Object object;
    std::set<std::string> superseded;
  };

  const ObjectCache& cache_;
  Mutex mutex_;
  std::map<std::string, Written> written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::kube
