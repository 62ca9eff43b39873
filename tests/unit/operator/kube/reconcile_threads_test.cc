#include "operator/kube/reconcile_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace strobe::kube {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

class Reconciling : public testing::Test {
 protected:
  // What one reconciliation of a key does. A key that has no steps left succeeds.
  using Step = std::function<absl::StatusOr<ReconcileResult>()>;

  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key) {
    Step step;
    {
      MutexLock lock(&mutex_);
      std::vector<Step>& steps = steps_[key];
      if (!steps.empty()) {
        step = steps.front();
        steps.erase(steps.begin());
      }
    }
    return step ? step() : ReconcileResult{};
  }
  // Runs until `count` reconciliations have ended, and returns their results.
  std::vector<std::string> ResultsOf(std::size_t count, int threads = 1) {
    const ReconcileThreads running(
        clock_, threads, queue_, [this](const std::string& key) { return Reconcile(key); },
        [this](const std::string& result, Nanos) {
          MutexLock lock(&mutex_);
          results_.push_back(result);
        });
    MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitFor(20s, [&] { return results_.size() >= count; }));
    return results_;
  }

  const SystemClock clock_{};
  WorkQueue queue_{clock_};
  Mutex mutex_;
  std::map<std::string, std::vector<Step>> steps_;
  std::vector<std::string> results_;
};

TEST_F(Reconciling, AKeyThatSucceedsDoesNotComeAgain) {
  queue_.Add("a/1");
  EXPECT_THAT(ResultsOf(1), ElementsAre("success"));
  EXPECT_EQ(queue_.load().waiting, 0u);
  EXPECT_EQ(queue_.load().running, 0u);
}

TEST_F(Reconciling, AKeyThatFailsComesAgain) {
  steps_["a/1"] = {[] { return absl::UnavailableError("no"); },
                   [] { return absl::AbortedError("has changed"); }};
  queue_.Add("a/1");
  EXPECT_THAT(ResultsOf(3), ElementsAre("error", "error", "success"));
}

TEST_F(Reconciling, AnExceptionIsAFailureAndTheThreadGoesOn) {
  steps_["a/1"] = {[]() -> absl::StatusOr<ReconcileResult> { throw std::runtime_error("defect"); }};
  queue_.Add("a/1");
  EXPECT_THAT(ResultsOf(2), ElementsAre("error", "success"));
}

TEST_F(Reconciling, AKeyComesAgainWhenItsResultSaysSo) {
  steps_["a/1"] = {[] { return ReconcileResult{Nanos(1ms)}; }};
  queue_.Add("a/1");
  EXPECT_THAT(ResultsOf(2), ElementsAre("requeue_after", "success"));
}

TEST_F(Reconciling, SeveralKeysAreReconciledAtOnce) {
  Notification first_runs, second_runs;
  steps_["a/1"] = {[&] {
    first_runs.Notify();
    EXPECT_TRUE(second_runs.WaitFor(20s));
    return ReconcileResult{};
  }};
  steps_["b/1"] = {[&] {
    second_runs.Notify();
    EXPECT_TRUE(first_runs.WaitFor(20s));
    return ReconcileResult{};
  }};
  queue_.Add("a/1");
  queue_.Add("b/1");
  EXPECT_THAT(ResultsOf(2, 2), ElementsAre("success", "success"));
}

}  // namespace
}  // namespace strobe::kube
