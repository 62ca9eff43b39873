#include "operator/request/request_table.h"

#include <utility>

namespace strobe {

std::shared_ptr<LiveCapture> RequestTable::Find(const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : found->second;
}

void RequestTable::Keep(const std::string& key, std::shared_ptr<LiveCapture> live) {
  MutexLock lock(&mutex_);
  live_[key] = std::move(live);
  waiting_.erase(key);
  pace_.Leave(key);
  metrics_.ActiveCaptures(live_.size());
}

void RequestTable::Forget(const std::string& key) {
  std::vector<std::string> woken;
  {
    MutexLock lock(&mutex_);
    live_.erase(key);
    metrics_.ActiveCaptures(live_.size());
    waiting_.erase(key);
    pace_.Leave(key);
    woken = line_.Leave(key);
  }
  Wake(woken);
  LeaveQueue(key);
}

std::size_t RequestTable::active() const {
  MutexLock lock(&mutex_);
  return live_.size();
}

std::map<std::string, std::shared_ptr<LiveCapture>> RequestTable::Retire() {
  MutexLock lock(&mutex_);
  retired_ = true;
  return live_;
}

bool RequestTable::retired() const {
  MutexLock lock(&mutex_);
  return retired_;
}

EarlierCaptures RequestTable::BeginTry(const std::string& key, const ProfileRequest& request,
                                       int number) {
  MutexLock lock(&mutex_);
  WaitingOf(key, request, number).held = false;
  // A request's next attempt joins the end of the line: requests that waited meanwhile come first.
  return line_.Try(request.ns, key, request.status.retry_time.value_or(request.created));
}

void RequestTable::EndTry(const std::string& key, int number) {
  std::vector<std::string> woken;
  {
    MutexLock lock(&mutex_);
    const auto live = live_.find(key);
    const auto waiting = waiting_.find(key);
    // A preflight is no capture: others must not wait until it has ended.
    if (live != live_.end() && live->second->number == number)
      woken = live->second->spec.preflight_only ? line_.Leave(key) : line_.Begin(key);
    else if (waiting != waiting_.end() && waiting->second.held)
      woken = line_.Wait(key);
    else
      woken = line_.Leave(key);
  }
  Wake(woken);
}

void RequestTable::SetHeld(const std::string& key) {
  MutexLock lock(&mutex_);
  waiting_[key].held = true;
}

RequestTable::Waiting& RequestTable::WaitingOf(const std::string& key,
                                               const ProfileRequest& request, int number) {
  Waiting& waiting = waiting_[key];
  if (waiting.uid != request.uid || waiting.number != number)
    waiting = {.uid = request.uid, .number = number, .since = clock_.MonoNow()};
  return waiting;
}

MonoTime RequestTable::WaitsSince(const std::string& key, const ProfileRequest& request,
                                  int number) {
  MutexLock lock(&mutex_);
  return WaitingOf(key, request, number).since;
}

void RequestTable::RestartWait(const std::string& key, const ProfileRequest& request, int number) {
  MutexLock lock(&mutex_);
  WaitingOf(key, request, number).since = clock_.MonoNow();
}

std::optional<MonoTime> RequestTable::AllowedAt(const std::string& key,
                                                const ProfileRequest& request, int number) {
  MutexLock lock(&mutex_);
  return WaitingOf(key, request, number).allowed;
}

void RequestTable::SetAllowed(const std::string& key, const ProfileRequest& request, int number,
                              std::optional<Nanos> max_duration) {
  MutexLock lock(&mutex_);
  Waiting& waiting = WaitingOf(key, request, number);
  waiting.allowed = clock_.MonoNow();
  waiting.max_duration = max_duration;
}

std::optional<Nanos> RequestTable::MaxDurationOf(const std::string& key,
                                                 const ProfileRequest& request, int number) {
  MutexLock lock(&mutex_);
  return WaitingOf(key, request, number).max_duration;
}

Nanos RequestTable::Pace(const std::string& key, const ProfileRequest& request) {
  MutexLock lock(&mutex_);
  return pace_.Enter(request.ns, key);
}

RequestTable::QueuePosition RequestTable::EnterQueue(const std::string& key, WallTime since,
                                                     const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  QueuePosition turn{.position = queue_.Enter(key, since, workers), .waiting = queue_.waiting()};
  if (turn.position.ahead > 0) pace_.Leave(key);  // Its turn wakes it.
  return turn;
}

void RequestTable::HoldQueue(const std::string& key, const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  queue_.Hold(key, workers);
}

void RequestTable::LeaveQueue(const std::string& key) {
  std::vector<std::string> next;
  {
    MutexLock lock(&mutex_);
    next = queue_.Leave(key);
  }
  Wake(next);
}

void RequestTable::Wake(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) enqueue_(key);
}

}  // namespace strobe
