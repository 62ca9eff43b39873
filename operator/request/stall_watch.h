// Looks for a while whether a job that evidence found standing still moves again, and withdraws the
// verdict if it does: a pause and a hang look the same until then. What is known is lost at a
// restart; the next operator looks itself. Threads: as Reconciler, which calls it.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/request/ports.h"

namespace strobe::request {

class StallWatch {
 public:
  // A job that stands still for longer has been restarted or killed by its own watchdogs.
  static constexpr Nanos kWatched = std::chrono::minutes(10);
  static constexpr Nanos kPause = std::chrono::seconds(10);  // Between two looks.
  // The workers of a job stand still or move together, so a few tell enough.
  static constexpr std::size_t kAsked = 8;

  // `dependencies` must outlive it.
  explicit StallWatch(const ReconcilerDependencies& dependencies) : deps_(dependencies) {}

  // The request is finished. Returns after how long to look again; none = never.
  absl::StatusOr<std::optional<Nanos>> Look(const std::string& key,
                                            const objects::ProfileRequest& request);
  void Forget(const std::string& key);

 private:
  struct Round;  // One look at a job.

  std::shared_ptr<Round> Find(const std::string& key, const std::string& uid);
  absl::Status Begin(const std::string& key, const objects::ProfileRequest& request);

  const ReconcilerDependencies& deps_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Round>> rounds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::request
