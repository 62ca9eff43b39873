#include "capture/worker/probe_slots.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// The slots that have begun, in their order, until a test ends them.
class Begun {
 public:
  ProbeSlots::Work Work(int number) {
    return [this, number](ProbeSlots::Slot slot) {
      MutexLock lock(&mutex_);
      numbers_.push_back(number);
      slots_.push_back(std::move(slot));
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
    ProbeSlots::Slot ended;
    MutexLock lock(&mutex_);
    ended.swap(slots_.at(index));
  }

 private:
  Mutex mutex_;
  std::vector<int> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<ProbeSlots::Slot> slots_ ABSL_GUARDED_BY(mutex_);
};

TEST(ProbeSlots, FewWorkAtOnceInTheOrderOfTheirCalls) {
  Begun begun;
  ProbeSlots slots({.at_once = 2, .longest = 1h});
  for (int i = 0; i < 4; ++i) slots.Take(begun.Work(i));
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1));
  begun.End(1);
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1, 2));
  begun.End(0);
  EXPECT_THAT(begun.numbers(), ElementsAre(0, 1, 2, 3));
}

TEST(ProbeSlots, OneThatDoesNotEndKeepsNobodyWaiting) {
  Begun begun;
  ProbeSlots slots({.at_once = 1, .longest = 1ms});
  for (int i = 0; i < 3; ++i) slots.Take(begun.Work(i));
  begun.Await(3);
  begun.End(0);  // Its slot is over already, and does not end that of another one.
  slots.Take(begun.Work(3));
  begun.Await(4);
}

TEST(ProbeSlots, WhatWaitsIsDroppedAtTheEnd) {
  Begun begun;
  std::optional<ProbeSlots> slots;
  slots.emplace(ProbeSlots::Limits{.at_once = 1, .longest = 1h});
  slots->Take(begun.Work(0));
  slots->Take(begun.Work(1));
  slots.reset();
  begun.End(0);
  EXPECT_THAT(begun.numbers(), ElementsAre(0));
}

}  // namespace
}  // namespace strobe::capture
