// What this process knows of the requests that it reconciles: their captures, and since when and
// for what they wait. All of it is lost at a restart: captures are found again at the sidecars, and
// requests wait from the beginning.
//
// Safe for concurrent use. `enqueue` is called without the table's mutex, in the caller's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "capture/attempt.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/policy/policy.h"
#include "operator/request/capture_queue.h"
#include "operator/request/namespace_line.h"
#include "operator/request/ports.h"

namespace strobe::request {

// How often requests look again for something that no event announces. All of them together look at
// most 20 times a second, shared equally among namespaces.
class PollPace {
 public:
  // The request `key` waits: returns after how long it should look again.
  Nanos Enter(const std::string& ns, const std::string& key);
  // The request does not wait any more. Idempotent.
  void Leave(const std::string& key);
  std::size_t waiting() const { return namespaces_.size(); }

 private:
  std::map<std::string, std::string> namespaces_;      // By key.
  std::map<std::string, std::set<std::string>> keys_;  // By namespace.
};

// The interval of one request is this times the number of requests that share the looks.
inline constexpr Nanos kPollEach = std::chrono::milliseconds(50);
inline constexpr Nanos kMinPoll = std::chrono::seconds(2);
inline constexpr Nanos kMaxPoll = std::chrono::seconds(60);

// A request's newest attempt, from its start until the request is finished.
struct LiveCapture {
  std::string uid{};  // The request's.
  std::shared_ptr<capture::Attempt> attempt{};
  int number = 1;  // The attempt's.
  WallTime began{};
  std::vector<capture::Target> targets{};
  capture::Spec spec{};             // The request's, with the resolved min_workers.
  bool counted = false;             // The end of the attempt has been counted and told.
  MonoTime written_at{};            // When the status was written last.
  bool told_armed = false;          // The status says that workers are armed.
  bool told_end = false;            // The request's end has been told.
  bool told_stall = false;          // The verdict about a stall has been told.
  std::optional<WallTime> retry{};  // When the next attempt is due.
};

// A request on its way to attempt `number`.
struct PendingRequest {
  const std::string& key;  // "namespace/name".
  const objects::ProfileRequest& request;
  int number = 1;
  policy::EarlierCaptures earlier{};  // What counts before it in its namespace.

  // Whether the previous leader has begun this very attempt.
  bool resumes() const { return request.status.attempt == number && !request.status.retry_time; }
  // Since when it waits in lines. A request's next attempt joins their end: requests that waited
  // meanwhile come first.
  WallTime in_line_since() const { return request.status.retry_time.value_or(request.created); }
};

class Table {
 public:
  Table(const Clock& clock, CaptureMetrics& metrics,
        std::function<void(const std::string& key)> enqueue)
      : clock_(clock), metrics_(metrics), enqueue_(std::move(enqueue)) {}

  // Null when the request has no capture in this process. One key is reconciled by one thread at a
  // time, and only that thread may use the capture's fields other than `attempt`.
  std::shared_ptr<LiveCapture> Find(const std::string& key) const;
  // Enters a capture that has been started; its request does not wait any more.
  void Keep(const std::string& key, std::shared_ptr<LiveCapture> live);
  // Forgets all about a request, and wakes the requests that waited for it.
  void Forget(const std::string& key);
  std::size_t active() const;  // Captures in the table.

  // No capture may begin any more. Returns the captures that are under way, by key.
  std::map<std::string, std::shared_ptr<LiveCapture>> Retire();
  bool retired() const;

  // Notes that the request tries to begin, and returns what counts before it in its namespace. Must
  // be followed by EndTry, whatever came of the try.
  policy::EarlierCaptures BeginTry(const PendingRequest& pending);
  // Wakes the request of the namespace that may try next.
  void EndTry(const PendingRequest& pending);
  // Notes that a policy makes the request wait, until its next try.
  void SetHeld(const PendingRequest& pending);

  // Since when the request waits to begin.
  MonoTime WaitsSince(const PendingRequest& pending);
  void RestartWait(const PendingRequest& pending);
  // When the gatekeeper allowed the attempt last; none = not yet.
  std::optional<MonoTime> AllowedAt(const PendingRequest& pending);
  // `max_duration`: what the policy that allows the attempt allows to record; none = no limit.
  void SetAllowed(const PendingRequest& pending, std::optional<Nanos> max_duration);
  std::optional<Nanos> MaxDurationOf(const PendingRequest& pending);
  // How long to wait before looking again for something that nobody announces.
  Nanos Pace(const PendingRequest& pending);

  struct QueuePosition {
    CaptureQueue::Position position{};
    std::size_t waiting = 0;  // Requests that wait for workers, in all namespaces.
  };
  // Makes the request wait for its turn on `workers`; see CaptureQueue.
  QueuePosition EnterQueue(const PendingRequest& pending, const std::set<std::string>& workers);
  // Gives the request its turn on `workers` at once: the previous leader began this capture.
  void HoldQueue(const PendingRequest& pending, const std::set<std::string>& workers);
  // Ends the request's turns and waits, and wakes the requests whose turn it has become.
  void LeaveQueue(const std::string& key);

 private:
  // A request whose attempt has not begun.
  struct Waiting {
    std::string uid{};
    int number = 1;
    MonoTime since{};
    std::optional<MonoTime> allowed{};
    std::optional<Nanos> max_duration{};
    bool held = false;
  };
  Waiting& WaitingOf(const PendingRequest& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(const std::vector<std::string>& keys);

  const Clock& clock_;
  CaptureMetrics& metrics_;
  const std::function<void(const std::string& key)> enqueue_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<LiveCapture>> live_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  CaptureQueue queue_ ABSL_GUARDED_BY(mutex_);
  NamespaceLine line_ ABSL_GUARDED_BY(mutex_);
  PollPace pace_ ABSL_GUARDED_BY(mutex_);
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::request
