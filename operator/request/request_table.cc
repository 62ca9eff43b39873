#include "operator/request/request_table.h"

#include <algorithm>
#include <utility>

namespace strobe::request {

Nanos PollPace::Enter(const std::string& ns, const std::string& key) {
  Leave(key);
  namespaces_[key] = ns;
  std::set<std::string>& own = keys_[ns];
  own.insert(key);
  // Each namespace gets an equal share of the looks, and each of its requests an equal part of
  // that.
  const auto shares = static_cast<std::int64_t>(keys_.size() * own.size());
  return std::clamp<Nanos>(kPollEach * shares, kMinPoll, kMaxPoll);
}

void PollPace::Leave(const std::string& key) {
  const auto found = namespaces_.find(key);
  if (found == namespaces_.end()) return;
  const auto ns = keys_.find(found->second);
  ns->second.erase(key);
  if (ns->second.empty()) keys_.erase(ns);
  namespaces_.erase(found);
}

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

policy::EarlierCaptures RequestTable::BeginTry(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).held = false;
  return line_.Try(pending.request.ns, pending.key, pending.in_line_since());
}

void RequestTable::EndTry(const PendingRequest& pending) {
  const std::string& key = pending.key;
  std::vector<std::string> woken;
  {
    MutexLock lock(&mutex_);
    const auto live = live_.find(key);
    const auto waiting = waiting_.find(key);
    // A preflight is no capture: others must not wait until it has ended.
    if (live != live_.end() && live->second->number == pending.number)
      woken = live->second->spec.preflight_only ? line_.Leave(key) : line_.Begin(key);
    else if (waiting != waiting_.end() && waiting->second.held)
      woken = line_.Wait(key);
    else
      woken = line_.Leave(key);
  }
  Wake(woken);
}

void RequestTable::SetHeld(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).held = true;
}

RequestTable::Waiting& RequestTable::WaitingOf(const PendingRequest& pending) {
  Waiting& waiting = waiting_[pending.key];
  if (waiting.uid != pending.request.uid || waiting.number != pending.number)
    waiting = {.uid = pending.request.uid, .number = pending.number, .since = clock_.MonoNow()};
  return waiting;
}

MonoTime RequestTable::WaitsSince(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).since;
}

void RequestTable::RestartWait(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).since = clock_.MonoNow();
}

std::optional<MonoTime> RequestTable::AllowedAt(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).allowed;
}

void RequestTable::SetAllowed(const PendingRequest& pending, std::optional<Nanos> max_duration) {
  MutexLock lock(&mutex_);
  Waiting& waiting = WaitingOf(pending);
  waiting.allowed = clock_.MonoNow();
  waiting.max_duration = max_duration;
}

std::optional<Nanos> RequestTable::MaxDurationOf(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).max_duration;
}

Nanos RequestTable::Pace(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return pace_.Enter(pending.request.ns, pending.key);
}

RequestTable::QueuePosition RequestTable::EnterQueue(const PendingRequest& pending,
                                                     const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  QueuePosition turn{.position = queue_.Enter(pending.key, pending.in_line_since(), workers),
                     .waiting = queue_.waiting()};
  if (turn.position.ahead > 0) pace_.Leave(pending.key);  // Its turn wakes it.
  return turn;
}

void RequestTable::HoldQueue(const PendingRequest& pending, const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  queue_.Hold(pending.key, workers);
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

}  // namespace strobe::request
