// An API server that allows what a test says, and a clock that a test moves.
#pragma once
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "viewer/service/access.h"

namespace strobe::viewer {

class FakeJudge final : public AccessJudge {
 public:
  absl::StatusOr<bool> MaySee(const Asker& asker, const std::string& ns, Nanos) override {
    ++asked_;
    if (while_asked) while_asked();
    if (broken) return absl::UnavailableError("no API server");
    MutexLock lock(&mutex_);
    return allowed_.contains({asker.user, ns});
  }
  void Allow(const std::string& user, const std::string& ns) {
    MutexLock lock(&mutex_);
    allowed_.insert({user, ns});
  }
  void Withdraw(const std::string& user, const std::string& ns) {
    MutexLock lock(&mutex_);
    allowed_.erase({user, ns});
  }
  int asked() const { return asked_; }

  std::atomic<bool> broken{false};
  std::function<void()> while_asked;

 private:
  std::atomic<int> asked_{0};
  Mutex mutex_;
  std::set<std::pair<std::string, std::string>> allowed_ ABSL_GUARDED_BY(mutex_);
};

class HandClock final : public Clock {
 public:
  WallTime WallNow() const override { return WallTime{Nanos{now_.load()}}; }
  MonoTime MonoNow() const override { return MonoTime{Nanos{now_.load()}}; }
  void Advance(Nanos by) { now_ += by.count(); }

 private:
  std::atomic<Nanos::rep> now_{std::chrono::nanoseconds(std::chrono::hours(1)).count()};
};

}  // namespace strobe::viewer
