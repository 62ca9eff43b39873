#include "collector/store/run_claim.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "tests/fakes/memory_store.h"

namespace strobe::storage {
namespace {

class RunClaimTest : public testing::Test {
 protected:
  std::string Claimed(std::string_view run, std::string_view capture) {
    const absl::StatusOr<std::string> name = ClaimRun(store_, run, capture);
    return name.ok() ? *name : std::string(name.status().message());
  }
  std::string Found(std::string_view run, std::string_view capture) {
    return FindClaimedRun(store_, run, capture).value_or("none");
  }

  MemoryBucket bucket_;
  MemoryStore store_{bucket_};
};

TEST_F(RunClaimTest, EachCaptureGetsARunOfItsOwnAndKeepsIt) {
  EXPECT_EQ(Claimed("run", "a"), "run");
  EXPECT_EQ(Claimed("run", "b"), "run_2");
  EXPECT_EQ(Claimed("run", "c"), "run_3");
  EXPECT_EQ(Claimed("run", "a"), "run") << "another worker of the same capture";
  EXPECT_EQ(Claimed("run", "b"), "run_2");
  EXPECT_EQ(Found("run", "c"), "run_3");
  EXPECT_EQ(Found("run", "d"), "none");
  EXPECT_EQ(bucket_.Bytes("plugins/profile/run_2/strobe.capture"), "b");
}

TEST_F(RunClaimTest, ADirectoryOfAnotherToolIsLeftAlone) {
  ASSERT_TRUE(PutText(store_, "plugins/profile/run/host.xplane.pb", "theirs").ok());
  EXPECT_EQ(Claimed("run", "a"), "run_2");
  EXPECT_EQ(bucket_.Bytes("plugins/profile/run/strobe.capture"), "");
}

TEST_F(RunClaimTest, AWorkerThatIsLateFindsItsCapturesRunAfterTheFirstOneWasDeleted) {
  Claimed("run", "a");
  Claimed("run", "b");
  const std::vector<std::string> keys = {"plugins/profile/run/strobe.capture"};
  ASSERT_TRUE(store_.Delete(keys).ok());
  EXPECT_EQ(Claimed("run", "b"), "run_2");
  EXPECT_EQ(Found("run", "b"), "run_2");
  EXPECT_EQ(Claimed("run", "c"), "run");
}

TEST_F(RunClaimTest, AllWorkersOfACaptureAgreeWhileOthersClaimToo) {
  constexpr int kCaptures = 8, kWorkers = 8;
  std::vector<std::string> names(kCaptures * kWorkers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kCaptures * kWorkers; ++i) {
    threads.emplace_back([&, i] {
      const std::string capture = std::to_string(i % kCaptures);
      const std::string name = ClaimRun(store_, "run", capture).value_or("failed");
      // As workers do: they write right after the claim.
      ASSERT_TRUE(PutText(store_, "plugins/profile/" + name + "/" + std::to_string(i), "t").ok());
      names[static_cast<std::size_t>(i)] = name;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], names[i % kCaptures]);
    all.insert(names[i]);
  }
  EXPECT_EQ(all.size(), std::size_t{kCaptures});
  EXPECT_FALSE(all.contains("failed"));
}

TEST_F(RunClaimTest, WhoMayNotReadGetsANameThatNobodyElseGets) {
  bucket_.before = [](const std::string& call) {
    return call == "read" ? absl::PermissionDeniedError("write only") : absl::OkStatus();
  };
  const std::string name = Claimed("run", "a");
  EXPECT_THAT(name, testing::MatchesRegex("run_[0-9a-f]{8}"));
  EXPECT_EQ(Claimed("run", "a"), name);
  EXPECT_NE(Claimed("run", "b"), name);
  EXPECT_TRUE(absl::IsPermissionDenied(FindClaimedRun(store_, "run", "a").status()));
  ASSERT_TRUE(PutText(store_, TraceKey(name, "w0"), "trace").ok());
  bucket_.before = nullptr;
  EXPECT_EQ(Found("run", "a"), name) << "for those who may read";
  EXPECT_EQ(Found("run", "b"), "none");
}

TEST_F(RunClaimTest, ALostAnswerDoesNotCostTheName) {
  bool lose = true;
  bucket_.after = [&](const std::string& call) {
    if (call != "put" || !lose) return absl::OkStatus();
    lose = false;
    return absl::UnavailableError("the answer was lost");
  };
  EXPECT_EQ(Claimed("run", "a"), "the answer was lost");
  EXPECT_EQ(Claimed("run", "a"), "run") << "tried again, as retried uploads do";
}

TEST_F(RunClaimTest, FailuresOfTheStoreArePassedOn) {
  bucket_.before = [](const std::string&) { return absl::UnavailableError("away"); };
  EXPECT_EQ(Claimed("run", "a"), "away");
  EXPECT_TRUE(absl::IsUnavailable(FindClaimedRun(store_, "run", "a").status()));
}

TEST_F(RunClaimTest, TheClaimOfSomebodyElseMayBeAnything) {
  ASSERT_TRUE(PutText(store_, ClaimKey("run"), std::string(1 << 20, 'x')).ok());
  ASSERT_TRUE(PutText(store_, ClaimKey("run_2"), "").ok());
  EXPECT_EQ(Claimed("run", "a"), "run_3");
}

}  // namespace
}  // namespace strobe::storage
