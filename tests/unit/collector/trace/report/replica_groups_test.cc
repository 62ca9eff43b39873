#include "collector/trace/report/replica_groups.h"

#include <gmock/gmock.h>

#include <string>

#include "collector/trace/report/digest_operations.h"

namespace strobe::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ReplicaGroupOf, ReadsLists) {
  EXPECT_THAT(ReplicaGroupOf("{{0,1},{2,3}}", 1), ElementsAre(0, 1));
  EXPECT_THAT(ReplicaGroupOf("{{0,1},{2,3}}", 2), ElementsAre(2, 3));
  EXPECT_THAT(ReplicaGroupOf("{{0,2},{1,3}}", 3), ElementsAre(1, 3));
  EXPECT_THAT(ReplicaGroupOf("{{0,1,2,3}}", 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ReplicaGroupOf("{{0,1},{2,3}}", 4), IsEmpty());
}

// The answers are numpy's: arange(n).reshape(sizes).transpose(order).reshape(groups, size).
TEST(ReplicaGroupOf, ReadsTheShortForm) {
  EXPECT_THAT(ReplicaGroupOf("[2,4]<=[8]", 5), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ReplicaGroupOf("[4,2]<=[2,4]T(1,0)", 0), ElementsAre(0, 4));
  EXPECT_THAT(ReplicaGroupOf("[4,2]<=[2,4]T(1,0)", 6), ElementsAre(2, 6));
  EXPECT_THAT(ReplicaGroupOf("[4,2]<=[2,2,2]T(0,2,1)", 3), ElementsAre(1, 3));
  EXPECT_THAT(ReplicaGroupOf("[4,2]<=[2,2,2]T(2,0,1)", 5), ElementsAre(5, 7));
  EXPECT_THAT(ReplicaGroupOf("[1,8]<=[8]", 7).size(), 8u);
}

TEST(ReplicaGroupOf, SurvivesOtherTexts) {
  for (const char* text :
       {"", "{}", "{", "{{", "{{}", "{{0", "{{0,", "{{0,1},", "{{x}}", "[", "[2,4]", "[2,4]<=[",
        "[0,0]<=[0]", "[2,4]<=[8]T(", "[2,4]<=[2,4]T(0,0)", "[2,4]<=[2,4]T(5)", "[2,4]<=[9]",
        "[4294967295,4294967295]<=[4294967295]", "0 default_pg"})
    EXPECT_THAT(ReplicaGroupOf(text, 7), IsEmpty()) << text;
}

digest::Digest OneDevice(std::uint32_t rank) {
  digest::Digest digest{.worker = "w" + std::to_string(rank), .rank = rank};
  digest.zero_ns = 1'000'000;
  digest.clock_error_ns = 1;
  digest.names = {"train", "all-reduce.1"};
  digest.devices = {{.name = "/device:GPU:0"}};
  digest.communicators = {{.name = "{{0,1},{2,3}}"}};
  for (std::int64_t i = 0; i < 3; ++i) {
    digest.steps.push_back(
        {.number = i, .begin_ns = 100 * i, .end_ns = 100 * (i + 1), .followed = i < 2});
    digest.collectives.push_back({.name = 1,
                                  .ordinal = static_cast<std::uint32_t>(i),
                                  .begin_ns = 100 * i + 10,
                                  .end_ns = 100 * i + 90,
                                  .kind = digest::CollectiveKind::kAllReduce});
  }
  return digest;
}

// Regression: calls of groups that have nothing to do with each other were joined.
TEST(WithOwnGroup, GroupsOfXlaAreJoinedEachByItself) {
  DigestMerger merger;
  for (std::uint32_t rank = 0; rank < 4; ++rank) merger.Add(OneDevice(rank));
  const Job job = merger.Finish();
  ASSERT_EQ(job.communicators.size(), 2u);
  EXPECT_THAT(job.communicators[0].members, ElementsAre(0, 1));
  EXPECT_THAT(job.communicators[1].members, ElementsAre(2, 3));
  EXPECT_EQ(job.communicators[0].kind, GroupKind::kTensor);
  EXPECT_FALSE(job.communicators[0].named);
}

TEST(WithOwnGroup, LeavesAloneWhatItCannotKnow) {
  digest::Digest digest = OneDevice(1);
  EXPECT_THAT(WithOwnGroup(digest, digest.communicators[0]).ranks, ElementsAre(0, 1));
  EXPECT_THAT(WithOwnGroup(digest, {.name = "{{0,1}}", .ranks = {7}}).ranks, ElementsAre(7));
  digest.devices.resize(2);
  EXPECT_THAT(WithOwnGroup(digest, digest.communicators[0]).ranks, IsEmpty());
  digest = OneDevice(1);
  digest.rank.reset();
  EXPECT_THAT(WithOwnGroup(digest, digest.communicators[0]).ranks, IsEmpty());
}

}  // namespace
}  // namespace strobe::report
