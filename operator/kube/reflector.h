// Keeps an ObjectCache synchronized with the API server: lists once, then watches. Recovers from
// closed connections, resets, expired versions, refusals and silence. Runs on its own thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

// Computes the wait after consecutive failures: 0.8 s doubling to 30 s, with jitter, reset after
// two minutes without a failure. The numbers are client-go's.
class Backoff {
 public:
  explicit Backoff(const Clock& clock) : clock_(clock), random_(std::random_device{}()) {}

  Nanos Next() {
    const MonoTime now = clock_.MonoNow();
    if (now - last_ > kForgetAfter) step_ = kFirst;
    last_ = now;
    const Nanos base = step_;
    step_ = std::min(step_ * 2, kMax);
    // Between one and two times the step, so that many clients do not return together.
    return base + Nanos{std::uniform_int_distribution<Nanos::rep>(0, base.count())(random_)};
  }

 private:
  static constexpr Nanos kFirst = std::chrono::milliseconds(800);
  static constexpr Nanos kMax = std::chrono::seconds(30);
  static constexpr Nanos kForgetAfter = std::chrono::minutes(2);

  const Clock& clock_;
  std::mt19937_64 random_;
  Nanos step_ = kFirst;
  MonoTime last_{};
};

// Splits a watch's chunks into lines. Each line is one JSON object and may span several chunks.

// Feed calls `line` for every complete, non-empty line. It returns false, and stops, if a line
// exceeds the limit; the stream must then be dropped.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t longest = 8u << 20) : longest_(longest) {}

  template <typename OnLine>
  bool Feed(std::string_view chunk, const OnLine& line) {
    while (!chunk.empty()) {
      const std::size_t end = chunk.find('\n');
      if (end == std::string_view::npos) {
        if (pending_.size() + chunk.size() > longest_) return false;
        pending_.append(chunk);
        return true;
      }
      if (pending_.size() + end > longest_) return false;
      if (pending_.empty()) {
        if (end > 0) line(chunk.substr(0, end));
      } else {
        pending_.append(chunk.substr(0, end));
        line(std::string_view(pending_));
        pending_.clear();
      }
      chunk.remove_prefix(end + 1);
    }
    return true;
  }

 private:
  const std::size_t longest_;
  std::string pending_;
};

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
