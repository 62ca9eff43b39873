#include "capture/retry.h"

#include <gtest/gtest.h>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;

AttemptResult Failed(int attempt, std::vector<Outcome> outcomes) {
  AttemptResult result;
  result.attempt = attempt;
  for (const Outcome outcome : outcomes) {
    WorkerResult& worker = result.workers.emplace_back();
    worker.outcome = outcome;
    if (outcome == Outcome::kOk) worker.report.set_url("x");
  }
  return result;
}

TEST(RetryAfter, TriesAgainWhatARetryCanCureWithGrowingDelay) {
  CaptureSpec spec;
  EXPECT_EQ(RetryAfter(spec, Failed(1, {Outcome::kOk, Outcome::kBusy})), 1s);
  EXPECT_EQ(RetryAfter(spec, Failed(2, {Outcome::kOk, Outcome::kBusy})), 2s);
  EXPECT_EQ(RetryAfter(spec, Failed(3, {Outcome::kOk, Outcome::kBusy})), std::nullopt)
      << "attempts is 3";
}

TEST(RetryAfter, DoesNotRepeatWhatCannotGetBetter) {
  EXPECT_EQ(RetryAfter({}, Failed(1, {Outcome::kOk, Outcome::kUploadDenied})), std::nullopt);
}

TEST(RetryAfter, LooksOnlyForEnoughWorkers) {
  CaptureSpec spec;
  spec.min_workers = 1;
  EXPECT_TRUE(RetryAfter(spec, Failed(1, {Outcome::kBusy, Outcome::kSidecarMissing})).has_value());
}

TEST(RetryAfter, WorkersThatWereCalledOffAreFine) {
  EXPECT_TRUE(RetryAfter({}, Failed(1, {Outcome::kCancelled, Outcome::kBusy})).has_value());
}

TEST(RetryAfter, NeverAfterACancellation) {
  AttemptResult result = Failed(1, {Outcome::kCancelled});
  result.cancelled = true;
  EXPECT_EQ(RetryAfter({}, result), std::nullopt);
}

}  // namespace
}  // namespace strobe::capture
