#include "capture/worker/probe_turns.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// The turns that have begun, in their order, until a test ends them.
class Begun {
 public:
  ProbeTurns::Work Work(int number) {
    return [this, number](ProbeTurns::Turn turn) {
      MutexLock lock(&mutex_);
      numbers_.push_back(number);
      turns_.push_back(std::move(turn));
    };
  }
  std::vector<int> numbers() {
    MutexLock lock(&mutex_);
    return numbers_;
  }
  void Await(std::size_t count) {
    MutexLock lock(&mutex_);
    mutex_.Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return numbers_.size() >= count; });
  }
  void End(std::size_t index) {
    ProbeTurns::Turn ended;
    MutexLock lock(&mutex_);
    ended.swap(turns_.at(index));
  }

 private:
  Mutex mutex_;
  std::vector<int> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProbeTurns::Turn> turns_ ABSL_GUARDED_BY(mutex_);
};

TEST(ProbeTurns, FewWorkAtOnceInTheOrderOfTheirCalls) {
  Begun begun;
  ProbeTurns turns({.at_once = 2, .longest = 1h});
  for (int i = 0; i < 4; ++i) turns.Take(begun.Work(i));
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1));
  begun.End(1);
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1, 2));
  begun.End(0);
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1, 2, 3));
}

TEST(ProbeTurns, OneThatDoesNotEndKeepsNobodyWaiting) {
  Begun begun;
  ProbeTurns turns({.at_once = 1, .longest = 1ms});
  for (int i = 0; i < 3; ++i) turns.Take(begun.Work(i));
  begun.Await(3);
  begun.End(0);  // Its turn is over already, and does not end that of another one.
  turns.Take(begun.Work(3));
  begun.Await(4);
}

TEST(ProbeTurns, WhatWaitsIsDroppedAtTheEnd) {
  Begun begun;
  std::optional<ProbeTurns> turns;
  turns.emplace(ProbeTurns::Limits{.at_once = 1, .longest = 1h});
  turns->Take(begun.Work(0));
  turns->Take(begun.Work(1));
  turns.reset();
  begun.End(0);
  EXPECT_THAT(begun.numbers(), ElementsAre(0));
}

}  // namespace
}  // namespace strobe
