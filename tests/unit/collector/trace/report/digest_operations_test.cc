#include "collector/trace/report/digest_operations.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collector/trace/report/arrivals.h"
#include "common/base/strings.h"

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
  EXPECT_THAT(ReplicaGroupOf("[16,65536]<=[1048576]", 1048575).front(), 983040u);
}

// The form with all groups is the definition.
TEST(ReplicaGroupOf, TheShortFormsGroupsArePermuted) {
  for (std::uint32_t id = 0; id < 24; ++id) {
    std::vector<std::uint32_t> array;
    for (std::uint32_t i = 0; i < 24; ++i)  // reshape(2,3,4).transpose(2,0,1)
      array.push_back(i / 3 % 2 * 12 + i % 3 * 4 + i / 6);
    const auto at = std::find(array.begin(), array.end(), id) - array.begin();
    const auto group = array.begin() + at / 6 * 6;
    EXPECT_THAT(ReplicaGroupOf("[4,6]<=[2,3,4]T(2,0,1)", id),
                testing::ElementsAreArray(group, group + 6));
  }
}

TEST(ReplicaGroupOf, SurvivesOtherTexts) {
  for (const char* text :
       {"", "{}", "{", "{{", "{{}", "{{0", "{{0,", "{{0,1},", "{{x}}", "[", "[2,4]", "[2,4]<=[",
        "[0,0]<=[0]", "[2,4]<=[8]T(", "[2,4]<=[2,4]T(0,0)", "[2,4]<=[2,4]T(5)", "[2,4]<=[9]",
        "[4294967295,4294967295]<=[4294967295]", "0 default_pg"})
    EXPECT_THAT(ReplicaGroupOf(text, 7), IsEmpty()) << text;
  EXPECT_THAT(ReplicaGroupOf("[1,65537]<=[65537]", 7), IsEmpty()) << "no group is so large";
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

// Regression: a short name stood for a million ranks, and a digest may have a thousand names.
TEST(WithOwnGroup, ADigestHasNoMoreRanksThanThereIsRoomFor) {
  digest::Digest digest = OneDevice(0);
  digest.world_size = 65'536;
  digest.communicators.clear();
  const digest::Collective call = digest.collectives[0];
  for (std::uint32_t i = 0; i < 1024; ++i) {
    digest.communicators.push_back({.name = StrCat("[16,65536]<=[1048576] ", i)});
    digest.collectives.push_back(call);
    digest.collectives.back().communicator = i;
  }
  DigestMerger merger;
  merger.Add(digest);
  const Job job = merger.Finish();
  ASSERT_EQ(job.communicators.size(), 1024u);
  EXPECT_EQ(job.communicators[15].kind, GroupKind::kAll);
  EXPECT_EQ(job.communicators[16].kind, GroupKind::kTensor) << "by its name alone";
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

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A worker with steps of 100 ns and two calls in each, 30 and 60 ns after its begin.
digest::Digest WorkerWithCalls(std::uint32_t rank, std::uint32_t first_ordinal = 0) {
  digest::Digest digest{.worker = StrCat("w", rank), .rank = rank, .zero_ns = 1'000'000};
  digest.clock_error_ns = 1;
  digest.names = {"train", "all-reduce"};
  digest.communicators = {{.name = "0"}};
  for (std::int64_t i = 0; i < 5; ++i) {
    digest.steps.push_back(
        {.number = i, .begin_ns = i * 100, .end_ns = (i + 1) * 100, .followed = i < 4});
    for (const std::int64_t at : {30, 60})
      digest.collectives.push_back({.name = 1,
                                    .ordinal = first_ordinal++,
                                    .begin_ns = i * 100 + at + rank,
                                    .end_ns = i * 100 + at + 20});
  }
  return digest;
}

Job MergeAll(const std::vector<digest::Digest>& digests) {
  DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return merger.Finish();
}

// How often each worker is known to have been last, over all calls.
std::vector<std::size_t> TimesLast(const Job& job) {
  std::vector<std::size_t> times;
  for (const WorkerArrivals& worker : ComputeArrivals(job).workers) times.push_back(worker.last);
  return times;
}

TEST(DigestMerger, JoinsCallsThatAreCountedFromDifferentOnes) {
  const Job job = MergeAll({WorkerWithCalls(0), WorkerWithCalls(9, 7)});
  ASSERT_EQ(job.steps.size(), 4u) << "the last step is not followed by another";
  for (const JobStep& step : job.steps) {
    EXPECT_EQ(step.workers.size(), 2u);
    EXPECT_EQ(step.collectives.size(), 2u);
    EXPECT_EQ(step.operations.size(), 8u) << "two calls of each, and what was done before them";
  }
  EXPECT_EQ(job.mismatch_count, 0u);
  EXPECT_THAT(job.unknown, IsEmpty());
  EXPECT_THAT(TimesLast(job), testing::ElementsAre(0, 8));
  EXPECT_EQ(ComputeArrivals(job).workers[0].waited_ns, 8 * 9);
}

TEST(DigestMerger, TellsCallsThatAWorkerDidNotMake) {
  digest::Digest lacking = WorkerWithCalls(1);
  lacking.collectives.erase(lacking.collectives.begin() + 3);
  const Job job = MergeAll({WorkerWithCalls(0), lacking, WorkerWithCalls(2)});
  ASSERT_EQ(job.mismatch_count, 1u);
  EXPECT_EQ(job.mismatches[0].step, 1);
  EXPECT_EQ(job.mismatches[0].ordinal, 1u);
  EXPECT_THAT(job.mismatches[0].missing, testing::ElementsAre(1u));
}

TEST(DigestMerger, SequenceNumbersReplaceTheOrder) {
  digest::Digest first = WorkerWithCalls(0), second = WorkerWithCalls(9);
  for (digest::Digest* digest : {&first, &second}) {
    for (digest::Collective& call : digest->collectives) call.sequence = call.ordinal + 500;
  }
  // Ordinals that mean nothing.
  for (digest::Collective& call : second.collectives) call.ordinal = call.ordinal * 3 + 11;
  EXPECT_THAT(TimesLast(MergeAll({first, second})), testing::ElementsAre(0, 8));
}

TEST(DigestMerger, DoesNotJoinWhatCannotBeTheSame) {
  digest::Digest early = WorkerWithCalls(0);
  for (digest::Collective& call : early.collectives) {
    call.begin_ns -= 25;
    call.end_ns -= 25;
  }
  const Job apart = MergeAll({early, WorkerWithCalls(9)});
  EXPECT_THAT(apart.unknown, Contains(HasSubstr("do not overlap in time")));
  EXPECT_THAT(TimesLast(apart), testing::ElementsAre(0, 0));
  // The root of a broadcast goes on at once.
  digest::Digest root = early, receiver = WorkerWithCalls(9);
  for (digest::Digest* digest : {&root, &receiver})
    for (digest::Collective& call : digest->collectives)
      call.kind = digest::CollectiveKind::kBroadcast;
  EXPECT_THAT(MergeAll({root, receiver}).unknown, IsEmpty());
  for (digest::Digest* digest : {&root, &receiver}) digest->clock_error_ns.reset();
  EXPECT_EQ(ComputeArrivals(MergeAll({root, receiver})).workers[0].waited_ns, 0);
  // Three workers in a communicator of two ranks: there are several of this name.
  std::vector<digest::Digest> pairs = {WorkerWithCalls(0), WorkerWithCalls(1), WorkerWithCalls(2)};
  for (digest::Digest& digest : pairs) digest.communicators[0].size = 2;
  EXPECT_THAT(MergeAll(pairs).unknown, Contains(HasSubstr("several communicators")));
  for (digest::Digest& digest : pairs) digest.communicators[0].ranks = {0, 1};
  pairs[2].communicators[0].ranks = {2, 3};
  const Job groups = MergeAll(pairs);
  EXPECT_THAT(groups.unknown, Not(Contains(HasSubstr("several communicators"))));
  EXPECT_EQ(groups.communicators.size(), 2u);
}

// A worker whose step has one call of each of `kinds`, a nanosecond after the other.
digest::Digest WorkerWithKinds(std::uint32_t rank, const std::vector<std::string>& kinds) {
  digest::Digest digest = WorkerWithCalls(rank);
  digest.steps = {{.number = 1, .begin_ns = 0, .end_ns = 100'000}};
  digest.collectives.clear();
  for (const std::string& kind : kinds) {
    const auto at = static_cast<std::int64_t>(digest.collectives.size());
    digest.collectives.push_back({.name = static_cast<std::uint32_t>(digest.names.size()),
                                  .begin_ns = at,
                                  .end_ns = 50'000 + at});
    digest.names.push_back(kind);
  }
  return digest;
}

TEST(DigestMerger, JoinsCallsOfKnownKindsAlsoWhenThereMayBeNoFurtherOnes) {
  std::vector<std::string> kinds;
  for (int i = 0; i < 20'000; ++i) kinds.push_back(StrCat("call", i));
  const Job job = MergeAll({WorkerWithKinds(0, kinds), WorkerWithKinds(1, {"call7", "another"})});
  const Arrivals arrivals = ComputeArrivals(job);
  EXPECT_EQ(arrivals.workers[1].calls, 1u);
  EXPECT_THAT(job.unknown, Contains(HasSubstr("1 calls could not be joined")));
}

// Regression: nothing was said of a clock whose error exceeds all that is compared.
TEST(DigestMerger, ClocksThatAreKnownLessWellThanAStepAreTold) {
  digest::Digest vague = WorkerWithCalls(1);
  const auto told = Contains(HasSubstr("1 workers are known less well than a step takes (rank 1)"));
  for (const std::int64_t error : {1, 99, 100}) {
    vague.clock_error_ns = error;
    EXPECT_THAT(MergeAll({WorkerWithCalls(0), vague}).unknown, Not(told)) << error;
  }
  for (const std::int64_t error : {101, 2'000'000'000}) {
    vague.clock_error_ns = error;
    EXPECT_THAT(MergeAll({WorkerWithCalls(0), vague}).unknown, told) << error;
  }
}

// The trace of the other is JSON without a base time.
TEST(DigestMerger, AWorkerWhoseTraceTellsNoTimeWaitsForNobodyAndIsNamed) {
  digest::Digest untold = WorkerWithCalls(1);
  untold.zero_ns = 0;
  const Job job = MergeAll({WorkerWithCalls(0), untold});
  EXPECT_FALSE(job.workers[1].on_common_clock);
  EXPECT_THAT(job.unknown,
              Contains(HasSubstr("the traces of rank 1 do not say at which time they began")));
  const Arrivals arrivals = ComputeArrivals(job);
  EXPECT_EQ(arrivals.workers[0].calls, 8u) << "calls are joined by their order";
  EXPECT_EQ(arrivals.workers[0].waited_ns + arrivals.workers[1].waited_ns, 0);
}

TEST(DigestMerger, LimitsCallsAndSaysSo) {
  DigestMerger merger({.calls = 60});  // The six have 60, and 30 steps.
  for (std::uint32_t rank = 0; rank < 6; ++rank) merger.Add(WorkerWithCalls(rank));
  const Job job = merger.Finish();
  std::size_t operations = 0;
  for (const JobStep& step : job.steps) operations += step.operations.size();
  EXPECT_LT(job.steps.size(), 4u);
  EXPECT_LE(operations, 120u) << "a call and the work before it";
  EXPECT_EQ(job.steps[0].operations.size(), 24u) << "the first steps are kept";
  EXPECT_THAT(job.unknown, Contains(HasSubstr("too many calls")));
}

}  // namespace
}  // namespace strobe::report
