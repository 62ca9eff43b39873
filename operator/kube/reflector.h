// Keeps an ObjectCache synchronized with the API server: lists once, then watches. Recovers from
// closed connections, resets, expired versions, refusals and silence. Runs on its own thread.
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
  std::string path{};  // Path of the collection, such as /apis/strobe.dev/v1alpha1/profilerequests.
  // The duration of a watch that the server is asked for. After a silence of 5 s more, and of 95 s
  // at most, the watch is ended here.
  Nanos watch_timeout = std::chrono::seconds(290);
  std::function<void()> became_synced{};  // Called once, from the reflector's thread.
};

// Counters for metrics and tests.
struct ReflectorStats {
  // A watch that falls silent is no failure, because a quiet server may send nothing for long.
  std::atomic<std::uint64_t> lists{0}, watches{0}, events{0}, failures{0}, bad_events{0},
      silences{0};
};

class Reflector {
 public:
  // `changed` is called with the key of every object that may have changed.
  Reflector(const Clock& clock, Client& client, ReflectorOptions options, ObjectCache& cache,
            std::function<void(const std::string&)> changed);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  const ReflectorStats& stats() const { return stats_; }

 private:
  void Run();
  absl::Status List();
  absl::Status Resume();
  absl::Status Watch();
  // OutOfRange if the version has expired and a list is due.
  absl::Status OnEvent(std::string_view line);
  absl::Status TakeEvent(std::string_view line);
  absl::Status TakeList();

  const Clock& clock_;
  Client& client_;
  const ReflectorOptions options_;
  ObjectCache& cache_;
  const std::function<void(const std::string&)> changed_;
  Backoff backoff_;
  std::string version_;  // The version of the last event or list; opaque.
  bool listed_ = false;
  bool broken_ = false;  // The last list or watch failed.
  // Set after an expiry: the version in a server's cache may have expired too.
  bool from_quorum_ = false;
  bool synced_ = false;  // Touched by the reflector's thread only.
  ReflectorStats stats_;
  Stop stop_;
  std::thread thread_;
};

}  // namespace strobe::kube
