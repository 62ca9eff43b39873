// Keeps an ObjectCache in step with the API server: list once, then watch, through closed
// connections, resets, expired versions, refusals and silence. Runs on its own thread.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "operator/kube/backoff.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

struct ReflectorOptions {
  std::string path{};  // Of the collection, such as /apis/strobe.dev/v1alpha1/profilerequests.
  Nanos watch_timeout =
      std::chrono::seconds(290);          // Asked of the server; a silence 5 s longer ends a watch.
  std::function<void()> became_synced{};  // Called once, from the reflector's thread.
};

// What happened, for metrics and tests.
struct ReflectorStats {
  std::atomic<std::uint64_t> lists{0}, watches{0}, events{0}, failures{0}, bad_events{0};
};

class Reflector {
 public:
  // `changed` is called with the key of every object that may differ from what it was.
  Reflector(const Clock& clock, Client& client, ReflectorOptions options, ObjectCache& cache,
            std::function<void(const std::string&)> changed);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  bool synced() const { return synced_; }  // The first list is in the cache.
  const ReflectorStats& stats() const { return stats_; }

 private:
  void Run();
  absl::Status List();
  absl::Status Resume();
  absl::Status Watch();
  // OutOfRange: the version has expired and a list is due.
  absl::Status OnEvent(std::string_view line);
  absl::Status TakeEvent(std::string_view line);
  absl::Status TakeList();

  const Clock& clock_;
  Client& client_;
  const ReflectorOptions options_;
  ObjectCache& cache_;
  const std::function<void(const std::string&)> changed_;
  Backoff backoff_;
  std::string version_;  // Of the last event or list; opaque.
  bool listed_ = false;
  bool broken_ = false;  // The last list or watch failed.
  bool from_quorum_ =
      false;  // After an expiry: what a server has in its cache may have expired too.
  std::atomic<bool> synced_{false};
  ReflectorStats stats_;
  Stop stop_;
  std::thread thread_;
};

// Removes what only costs memory: managedFields and the last-applied annotation.
void Trim(Json& object);

}  // namespace strobe::kube
