#include "common/http/slow_work.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/guard.h"

namespace strobe::http {

bool SlowWork::Add(const std::string& asker, Task task) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  const auto known = askers_.find(asker);
  const std::size_t own = known == askers_.end() ? 0 : known->second.waiting.size();
  if (own > 0 && (waiting_ >= limits_.waiting || own >= limits_.waiting_each)) return false;
  askers_[asker].waiting.push_back(std::move(task));
  ++waiting_;
  if (threads_.size() < static_cast<std::size_t>(limits_.threads))
    threads_.emplace_back([this] {
      // The kernel changes this thread and those that it starts.
      if (limits_.niceness != 0) (void)setpriority(PRIO_PROCESS, 0, limits_.niceness);
      RunThread("slow_work", [this] { Run(); });
    });
  return true;
}

void SlowWork::Stop() {
  // Destroyed after the lock is released, because a task's destructor may do anything.
  std::vector<std::deque<Task>> dropped;
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [name, asker] : askers_) dropped.push_back(std::exchange(asker.waiting, {}));
    waiting_ = 0;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool SlowWork::CanRunAny() const {
  return std::any_of(askers_.begin(), askers_.end(),
                     [this](const auto& named) { return CanRun(named.second); });
}

SlowWork::Chosen SlowWork::Take() {
  auto next = askers_.upper_bound(last_);
  while (true) {
    if (next == askers_.end()) next = askers_.begin();
    if (CanRun(next->second)) break;
    ++next;
  }
  last_ = next->first;
  Asker& asker = next->second;
  Chosen chosen{next, std::move(asker.waiting.front())};
  asker.waiting.pop_front();
  --waiting_;
  ++asker.running;
  return chosen;
}

void SlowWork::NoteEnd(Askers::iterator asker) {
  MutexLock lock(&mutex_);
  --asker->second.running;
  if (asker->second.running == 0 && asker->second.waiting.empty()) askers_.erase(asker);
}

void SlowWork::Run() {
  while (true) {
    std::optional<Chosen> chosen;
    {
      MutexLock lock(&mutex_);
      mutex_.Await([this]()
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || CanRunAny(); });
      if (stopping_) return;
      chosen = Take();
    }
    (void)RunGuarded("slow_work", chosen->task);
    // Before its share is free again: a task may hold much memory.
    (void)RunGuarded("slow_work", [&] { chosen->task = nullptr; });
    NoteEnd(chosen->asker);
  }
}

}  // namespace strobe::http
