#include "operator/kube/work_queue.h"

#include <algorithm>

#include "operator/kube/object_cache.h"

namespace strobe::kube {
namespace {

constexpr Nanos kFirstDelay = std::chrono::milliseconds(5);
// Shorter than in client-go (1000 s): when an API server that was away is back, whatever failed
// meanwhile goes on soon.
constexpr Nanos kMaxDelay = std::chrono::seconds(30);

}  // namespace

void WorkQueue::ShareAmong(std::size_t threads) {
  MutexLock lock(&mutex_);
  threads_ = threads;
}

void WorkQueue::Push(const std::string& key) {
  const std::string ns = NamespaceOf(key);
  std::deque<std::string>& own = queues_[ns];
  if (own.empty()) order_.push_back(ns);
  own.push_back(key);
  ++queued_;
}

std::deque<std::string>::iterator WorkQueue::Next() {
  return std::find_if(order_.begin(), order_.end(),
                      [this](const std::string& ns) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                        const auto running = running_.find(ns);
                        if (threads_ == 0 || running == running_.end()) return true;
                        return running->second + processing_.size() < threads_;
                      });
}

std::string WorkQueue::Pop() {
  const auto next = Next();
  const std::string ns = std::move(*next);
  order_.erase(next);
  const auto own = queues_.find(ns);
  std::string key = std::move(own->second.front());
  own->second.pop_front();
  --queued_;
  if (own->second.empty())
    queues_.erase(own);
  else
    order_.push_back(ns);
  return key;
}

void WorkQueue::DropTimer(const std::string& key) {
  const auto timer = timers_.find(key);
  if (timer == timers_.end()) return;
  auto [at, end] = later_.equal_range(timer->second);
  while (at != end && at->second != key) ++at;
  if (at != end) later_.erase(at);
  timers_.erase(timer);
}

void WorkQueue::AddLocked(const std::string& key) {
  if (shutting_down_ || !dirty_.emplace(key, clock_.MonoNow()).second) return;
  if (observer_ != nullptr) observer_->Added();
  if (processing_.count(key) == 0) Push(key);
}

void WorkQueue::Add(const std::string& key) {
  MutexLock lock(&mutex_);
  AddLocked(key);
}

void WorkQueue::AddAfter(const std::string& key, Nanos delay) {
  MutexLock lock(&mutex_);
  if (delay <= Nanos{0}) return AddLocked(key);
  if (shutting_down_) return;
  const MonoTime due = clock_.MonoNow() + delay;
  const auto timer = timers_.find(key);
  if (timer != timers_.end() && timer->second <= due) return;
  DropTimer(key);
  later_.emplace(due, key);
  timers_[key] = due;
}

void WorkQueue::AddRateLimited(const std::string& key) {
  int failures = 0;
  {
    MutexLock lock(&mutex_);
    failures = failures_[key]++;
    if (observer_ != nullptr) observer_->Retried();
  }
  AddAfter(key,
           std::min<Nanos>(kFirstDelay * (std::int64_t{1} << std::min(failures, 30)), kMaxDelay));
}

void WorkQueue::Forget(const std::string& key) {
  MutexLock lock(&mutex_);
  failures_.erase(key);
}

void WorkQueue::TakeDue() {
  const MonoTime now = clock_.MonoNow();
  while (!later_.empty() && later_.begin()->first <= now) {
    const std::string key = later_.begin()->second;
    DropTimer(key);
    AddLocked(key);
  }
}

std::optional<std::string> WorkQueue::Get() {
  MutexLock lock(&mutex_);
  while (true) {
    TakeDue();
    if (Next() != order_.end()) {
      std::string key = Pop();
      DropTimer(key);  // The result of processing says when to process it again.
      const MonoTime now = clock_.MonoNow();
      const auto dirty = dirty_.find(key);
      if (observer_ != nullptr) observer_->Started(now - dirty->second);
      dirty_.erase(dirty);
      processing_.emplace(key, now);
      ++running_[NamespaceOf(key)];
      return key;
    }
    if (shutting_down_) return std::nullopt;
    const MonoTime due = later_.empty() ? MonoTime::max() : later_.begin()->first;
    const auto woken = [this, due]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return shutting_down_ || Next() != order_.end() ||
             (!later_.empty() && later_.begin()->first < due);
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
    const auto running = running_.find(NamespaceOf(key));
    if (--running->second == 0) running_.erase(running);
  }
  if (dirty_.count(key) > 0) Push(key);
}

void WorkQueue::ShutDown() {
  MutexLock lock(&mutex_);
  shutting_down_ = true;
  later_.clear();
  timers_.clear();
  // Queued keys can be dropped: reconciling is level-based, and the next leader adds all keys
  // again.
  for (const auto& [ns, keys] : queues_) {
    for (const std::string& key : keys) dirty_.erase(key);
  }
  queues_.clear();
  order_.clear();
  queued_ = 0;
}

WorkQueue::Load WorkQueue::load() const {
  MutexLock lock(&mutex_);
  Load load{.waiting = queued_, .running = processing_.size()};
  const MonoTime now = clock_.MonoNow();
  for (const auto& [key, since] : processing_) {
    load.running_total += now - since;
    load.longest = std::max<Nanos>(load.longest, now - since);
  }
  return load;
}

}  // namespace strobe::kube
