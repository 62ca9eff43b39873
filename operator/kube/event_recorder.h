// Sends events (events.k8s.io/v1), which `kubectl describe` shows. Repetitions within six minutes
// are counted in the series of one event. The note of an event cannot be changed: up to ten other
// notes within six minutes become events of their own, and more are only counted. Never blocks its
// caller; the queue is bounded, namespaces take turns in it, and events that do not fit are
// counted.
#pragma once
#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/fair_queue.h"
#include "common/fair/token_bucket.h"
#include "operator/kube/client.h"

namespace strobe::kube {

struct ObjectRef {
  std::string api_version{}, kind{}, ns{}, name{}, uid{};
};

struct Event {
  ObjectRef regarding{};
  bool warning = false;
  // `reason` and `action` are CamelCase words; `note` is one sentence.
  std::string reason{}, action{}, note{};
};

// Returns the object to create. `time` is in RFC 3339 with microseconds.
Json EventToJson(const Event& event, const std::string& name, const std::string& time,
                 const std::string& instance);

class EventRecorder {
 public:
  static constexpr std::size_t kQueue = 1000;

  EventRecorder(const Clock& clock, Client& client, std::string instance);
  ~EventRecorder();  // Sends queued events for at most two seconds.
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(Event event);
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Series {
    std::string path, note;
    int count = 1;
    MonoTime last{};
    fair::TokenBucket notes;  // New events for other notes.
  };
  void Run();
  void Send(const Event& event);
  // Counts the event in its series. False if there is none in which it can be counted.
  bool Count(const std::string& key, const std::string& note, MonoTime now);

  const Clock& clock_;
  Client& client_;
  const std::string instance_;
  std::map<std::string, Series> series_;  // Used only by the sending thread.
  std::uint64_t serial_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
  Mutex mutex_;
  fair::FairQueue<Event> queue_ ABSL_GUARDED_BY(mutex_){kQueue};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  MonoTime give_up_ ABSL_GUARDED_BY(mutex_){};
  std::thread thread_;
};

}  // namespace strobe::kube
