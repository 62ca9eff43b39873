#include "common/http/slow_work.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/guard.h"

namespace strobe::http {

bool SlowWork::Add(const Work& work, Task task) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  const auto known = askers_.find(work.asker);
  const std::size_t own = known == askers_.end() ? 0 : known->second.waiting();
  if (own > 0 && (waiting_ >= limits_.waiting || own >= limits_.waiting_each)) return false;
  Asker& asker = askers_[work.asker];
  (work.load == Load::kHeavy ? asker.heavy : asker.light).push_back(std::move(task));
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
    for (auto& [name, asker] : askers_) {
      dropped.push_back(std::exchange(asker.light, {}));
      dropped.push_back(std::exchange(asker.heavy, {}));
    }
    waiting_ = 0;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool SlowWork::CanRunLight(const Asker& asker) const {
  return !asker.light.empty() && asker.running < limits_.each;
}

bool SlowWork::CanRunHeavy(const Asker& asker) const {
  return !asker.heavy.empty() && asker.running < limits_.each &&
         asker.heavy_running < limits_.heavy_each && heavy_running_ < limits_.heavy;
}

bool SlowWork::CanRunAny() const {
  return std::any_of(askers_.begin(), askers_.end(),
                     [this](const auto& named) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                       return CanRunLight(named.second) || CanRunHeavy(named.second);
                     });
}

SlowWork::Chosen SlowWork::Take() {
  auto next = askers_.upper_bound(last_);
  while (true) {
    if (next == askers_.end()) next = askers_.begin();
    if (CanRunLight(next->second) || CanRunHeavy(next->second)) break;
    ++next;
  }
  last_ = next->first;
  Asker& asker = next->second;
  const bool heavy = !CanRunLight(asker);
  std::deque<Task>& queue = heavy ? asker.heavy : asker.light;
  Chosen chosen{next, heavy, std::move(queue.front())};
  queue.pop_front();
  --waiting_;
  ++asker.running;
  asker.heavy_running += heavy ? 1 : 0;
  heavy_running_ += heavy ? 1 : 0;
  return chosen;
}

void SlowWork::NoteEnd(const Chosen& chosen) {
  MutexLock lock(&mutex_);
  Asker& asker = chosen.asker->second;
  --asker.running;
  asker.heavy_running -= chosen.heavy ? 1 : 0;
  heavy_running_ -= chosen.heavy ? 1 : 0;
  if (asker.running == 0 && asker.waiting() == 0) askers_.erase(chosen.asker);
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
    NoteEnd(*chosen);
  }
}

}  // namespace strobe::http
