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

std::shared_ptr<LiveCapture> Table::Find(const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : found->second;
}

void Table::Keep(const std::string& key, std::shared_ptr<LiveCapture> live) {
  MutexLock lock(&mutex_);
  live_[key] = std::move(live);
  waiting_.erase(key);
  pace_.Leave(key);
  metrics_.ActiveCaptures(live_.size());
}

void Table::Forget(const std::string& key) {
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

std::size_t Table::active() const {
  MutexLock lock(&mutex_);
  return live_.size();
}

std::map<std::string, std::shared_ptr<LiveCapture>> Table::Retire() {
  MutexLock lock(&mutex_);
  retired_ = true;
  return live_;
}

bool Table::retired() const {
  MutexLock lock(&mutex_);
  return retired_;
}

policy::EarlierCaptures Table::BeginTry(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).held = false;
  return line_.Try(pending.request.ns, pending.key, pending.in_line_since());
}

void Table::EndTry(const PendingRequest& pending) {
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

void Table::SetHeld(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).held = true;
}

Table::Waiting& Table::WaitingOf(const PendingRequest& pending) {
  Waiting& waiting = waiting_[pending.key];
  if (waiting.uid != pending.request.uid || waiting.number != pending.number)
    waiting = {.uid = pending.request.uid, .number = pending.number, .since = clock_.MonoNow()};
  return waiting;
}

MonoTime Table::WaitsSince(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).since;
}

void Table::RestartWait(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  WaitingOf(pending).since = clock_.MonoNow();
}

std::optional<MonoTime> Table::AllowedAt(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).allowed;
}

void Table::SetAllowed(const PendingRequest& pending, std::optional<Nanos> max_duration) {
  MutexLock lock(&mutex_);
  Waiting& waiting = WaitingOf(pending);
  waiting.allowed = clock_.MonoNow();
  waiting.max_duration = max_duration;
}

std::optional<Nanos> Table::MaxDurationOf(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return WaitingOf(pending).max_duration;
}

Nanos Table::Pace(const PendingRequest& pending) {
  MutexLock lock(&mutex_);
  return pace_.Enter(pending.request.ns, pending.key);
}

Table::QueuePosition Table::EnterQueue(const PendingRequest& pending,
                                       const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  QueuePosition turn{.position = queue_.Enter(pending.key, pending.in_line_since(), workers),
                     .waiting = queue_.waiting()};
  if (turn.position.ahead > 0) pace_.Leave(pending.key);  // Its turn wakes it.
  return turn;
}

void Table::HoldQueue(const PendingRequest& pending, const std::set<std::string>& workers) {
  MutexLock lock(&mutex_);
  queue_.Hold(pending.key, workers);
}

void Table::LeaveQueue(const std::string& key) {
  std::vector<std::string> next;
  {
    MutexLock lock(&mutex_);
    next = queue_.Leave(key);
  }
  Wake(next);
}

void Table::Wake(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) enqueue_(key);
}

}  // namespace strobe::request
