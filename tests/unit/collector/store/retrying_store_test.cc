#include "collector/store/retrying_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/fakes/memory_store.h"

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

TEST(WillFailAgain, TellsWhatIsWrongWithTheLogdirFromWhatMayPass) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError(""), absl::NotFoundError(""), absl::FailedPreconditionError(""),
        absl::InvalidArgumentError("")})
    EXPECT_TRUE(WillFailAgain(status)) << status;
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError(""), absl::UnauthenticatedError(""),
        absl::DeadlineExceededError(""), absl::ResourceExhaustedError(""),
        absl::AlreadyExistsError("")})
    EXPECT_FALSE(WillFailAgain(status)) << status;
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

using testing::HasSubstr;

class RetryingStoreTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectStore> Open(const StoreLimits& limits = {}) {
    return WithRetries(std::make_unique<MemoryStore>(bucket_), limits,
                       [this](const absl::Status&, Nanos) { ++retries_; });
  }
  void FailTimes(int times, absl::Status status) {
    bucket_.before = [this, times, status](const std::string&) mutable {
      ++asked_;
      return times-- > 0 ? status : absl::OkStatus();
    };
  }
  MemoryBucket bucket_;
  int retries_ = 0, asked_ = 0;
};

TEST_F(RetryingStoreTest, TriesAgainUntilItWorks) {
  FailTimes(2, absl::UnavailableError("busy"));
  EXPECT_TRUE(PutText(*Open(), "k", "text").ok());
  EXPECT_EQ(retries_, 2);
  EXPECT_EQ(bucket_.Bytes("k"), "text");
}

TEST_F(RetryingStoreTest, AsksOnceWhenTheAnswerIsFinal) {
  FailTimes(9, absl::PermissionDeniedError("not yours"));
  EXPECT_TRUE(absl::IsPermissionDenied(PutText(*Open(), "k", "text")));
  EXPECT_EQ(asked_, 1);
}

TEST_F(RetryingStoreTest, GivesUpWithTheStoresWordsWhenPatienceEnds) {
  FailTimes(1'000'000, absl::UnavailableError("busy"));
  const absl::Status status = PutText(*Open({.patience = 300ms}), "k", "text");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("busy; gave up after"));
}

TEST_F(RetryingStoreTest, KeepsToTheDeadlineWhateverThePatience) {
  FailTimes(1'000'000, absl::UnavailableError("busy"));
  const auto deadline = SystemClock().MonoNow() + 200ms;
  EXPECT_FALSE(Open({.deadline = deadline, .patience = Nanos::max()})->Stat("k").ok());
  EXPECT_GT(asked_, 0);
}

TEST_F(RetryingStoreTest, CancelEndsTheWait) {
  FailTimes(1'000'000, absl::UnavailableError("busy"));
  Cancellation cancellation;
  std::thread canceller([&] {
    std::this_thread::sleep_for(50ms);
    cancellation.Cancel();
  });
  const absl::Status status =
      PutText(*Open({.patience = Nanos::max(), .cancellation = &cancellation}), "k", "text");
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(RetryingStoreTest, AListingThatBrokeIsNotToldTwice) {
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(PutText(*Open(), key, "x").ok());
  bool failed = false;
  bucket_.after = [&](const std::string&) {
    return std::exchange(failed, true) ? absl::OkStatus() : absl::UnavailableError("cut");
  };
  std::string seen;
  ASSERT_TRUE(Open()
                  ->List("",
                         [&](const StoredObject& object) {
                           seen += object.key;
                           return true;
                         })
                  .ok());
  EXPECT_EQ(seen, "abc");
}

TEST_F(RetryingStoreTest, AListingThatBrokeMissesNothingWhenObjectsAreDeletedMeanwhile) {
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(PutText(*Open(), key, "x").ok());
  bool failed = false;
  bucket_.after = [&](const std::string&) {
    if (std::exchange(failed, true)) return absl::OkStatus();
    MutexLock lock(&bucket_.mutex);
    bucket_.objects.erase("b");
    // "aa" comes before keys that were seen, as in a store that does not sort its listing.
    bucket_.objects["aa"] = {"x", ""};
    bucket_.objects["d"] = {"x", ""};
    return absl::UnavailableError("cut");
  };
  std::string seen;
  ASSERT_TRUE(Open()
                  ->List("",
                         [&](const StoredObject& object) {
                           seen += object.key + " ";
                           return true;
                         })
                  .ok());
  EXPECT_EQ(seen, "a b c aa d ");
}

}  // namespace
}  // namespace strobe::storage
