#include "collector/store/retry_policy.h"

#include <gtest/gtest.h>

namespace strobe::storage {
namespace {

using namespace std::chrono_literals;

TEST(RetryDelay, OnlyForWhatAnotherTryCanCure) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError(""), absl::NotFoundError(""), absl::AlreadyExistsError(""),
        absl::FailedPreconditionError(""), absl::ResourceExhaustedError(""),
        absl::CancelledError(""), absl::DeadlineExceededError(""), absl::InvalidArgumentError("")})
    EXPECT_FALSE(RetryDelay(status, 1, 1h, 0)) << status;
  EXPECT_TRUE(RetryDelay(absl::UnavailableError(""), 1, 1h, 0));
  EXPECT_TRUE(RetryDelay(absl::UnauthenticatedError(""), 1, 1h, 0));
}

TEST(RetryDelay, GrowsToALimitWithJitterAndNeverPastTheEnd) {
  const absl::Status busy = absl::UnavailableError("");
  EXPECT_EQ(*RetryDelay(busy, 1, 1h, 0), 100ms);
  EXPECT_EQ(*RetryDelay(busy, 3, 1h, 0), 400ms);
  EXPECT_EQ(*RetryDelay(busy, 1000, 1h, 0), 5s);
  EXPECT_NEAR(static_cast<double>(RetryDelay(busy, 1000, 1h, 0.999)->count()), 2.5e9, 1e7);
  EXPECT_EQ(*RetryDelay(busy, 1000, 5s, 0), 2500ms) << "the time that is left is used";
  EXPECT_FALSE(RetryDelay(busy, 1000, 150ms, 0));
  EXPECT_FALSE(RetryDelay(busy, 1, -1s, 0));
}

}  // namespace
}  // namespace strobe::storage
