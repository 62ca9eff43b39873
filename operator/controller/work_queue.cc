#include "operator/controller/work_queue.h"

#include <algorithm>

namespace strobe {
namespace {

constexpr Nanos kFirstDelay = std::chrono::milliseconds(5);
constexpr Nanos kLongestDelay = std::chrono::seconds(1000);

}  // namespace

void WorkQueue::AddLocked(const std::string& key) {
  if (shutting_down_ || !dirty_.emplace(key, clock_.MonoNow()).second) return;
  if (observer_ != nullptr) observer_->Added();
  if (processing_.count(key) == 0) queue_.push_back(key);
}

void WorkQueue::Add(const std::string& key) {
  MutexLock lock(&mutex_);
  AddLocked(key);
}

void WorkQueue::AddAfter(const std::string& key, Nanos delay) {
  MutexLock lock(&mutex_);
  if (delay <= Nanos{0}) return AddLocked(key);
  if (!shutting_down_) later_.emplace(clock_.MonoNow() + delay, key);
}

void WorkQueue::AddRateLimited(const std::string& key) {
  int failures = 0;
  {
    MutexLock lock(&mutex_);
    failures = failures_[key]++;
    if (observer_ != nullptr) observer_->Retried();
  }
  AddAfter(key, std::min<Nanos>(kFirstDelay * (std::int64_t{1} << std::min(failures, 30)),
                                kLongestDelay));
}

void WorkQueue::Forget(const std::string& key) {
  MutexLock lock(&mutex_);
  failures_.erase(key);
}

void WorkQueue::TakeDue() {
  const MonoTime now = clock_.MonoNow();
  while (!later_.empty() && later_.begin()->first <= now) {
    AddLocked(later_.begin()->second);
    later_.erase(later_.begin());
  }
}

std::optional<std::string> WorkQueue::Get() {
  MutexLock lock(&mutex_);
  while (true) {
    TakeDue();
    if (!queue_.empty()) {
      std::string key = std::move(queue_.front());
      queue_.pop_front();
      const MonoTime now = clock_.MonoNow();
      const auto dirty = dirty_.find(key);
      if (observer_ != nullptr) observer_->Started(now - dirty->second);
      dirty_.erase(dirty);
      processing_.emplace(key, now);
      return key;
    }
    if (shutting_down_) return std::nullopt;
    const MonoTime due = later_.empty() ? MonoTime::max() : later_.begin()->first;
    const auto woken = [this, due]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return shutting_down_ || !queue_.empty() || (!later_.empty() && later_.begin()->first < due);
    };
    if (due == MonoTime::max())
      mutex_.Await(woken);
    else
      mutex_.AwaitFor((due - clock_.MonoNow()), woken);
  }
}

void WorkQueue::Done(const std::string& key) {
  MutexLock lock(&mutex_);
  if (const auto ran = processing_.find(key); ran != processing_.end()) {
    if (observer_ != nullptr) observer_->Finished(clock_.MonoNow() - ran->second);
    processing_.erase(ran);
  }
  if (dirty_.count(key) > 0) queue_.push_back(key);
}

void WorkQueue::ShutDown() {
  MutexLock lock(&mutex_);
  shutting_down_ = true;
  later_.clear();
  // Unstarted work is dropped: it is level-based, the next leader finds it again.
  for (const std::string& key : queue_) dirty_.erase(key);
  queue_.clear();
}

WorkQueue::Load WorkQueue::load() const {
  MutexLock lock(&mutex_);
  Load load{.waiting = queue_.size(), .running = processing_.size()};
  const MonoTime now = clock_.MonoNow();
  for (const auto& [key, since] : processing_) {
    load.running_total += now - since;
    load.longest = std::max<Nanos>(load.longest, now - since);
  }
  return load;
}

}  // namespace strobe
