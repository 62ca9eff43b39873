#include "capture/attempt_evidence.h"

#include <gmock/gmock.h>

#include "capture/attempt.h"
#include "common/base/strings.h"
#include "tests/fakes/fake_worker.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AttemptEvidenceTest : public testing::Test {
 protected:
  AttemptEvidenceTest() {
    spec_.uid = "uid";
    spec_.logdir = "/logs";
    spec_.run = "run";
    spec_.collects_evidence = true;
    spec_.min_workers = 1;
    spec_.attempts = 1;
    spec_.duration = Nanos{0};
  }

  // A worker whose only process waits in a collective, or does something else.
  void Tell(const std::string& worker, int rank, bool waits) {
    v1::ReadEvidenceResponse answer;
    for (const char* look : {"a", "b"}) {
      v1::EvidenceFile& file = *answer.add_files();
      file.set_name(StrCat(rank, ".", look, ".stacks"));
      file.set_content(
          StrCat("Thread 1 (idle): \"MainThread\"\n",
                 waits ? "    all_reduce (/lib/torch/distributed/distributed_c10d.py:1)\n"
                       : "    next (loader.py:88)\n",
                 "    train (train.py:5)\n"));
    }
    fleet_[worker].evidence = answer;
  }
  std::shared_ptr<Attempt> Start(std::vector<std::string> names) {
    std::vector<Target> targets;
    for (const std::string& name : names) {
      Target target;
      target.name = target.pod = target.file = name;
      target.address = name + ":9470";
      target.rank = static_cast<int>(targets.size());
      targets.push_back(target);
    }
    return Attempt::Start(
        {.clock = time_, .executor = time_, .workers = fleet_, .evidence_memory = memory_}, spec_,
        1, std::move(targets), [this] { ++changes_; });
  }
  AttemptResult Run(std::vector<std::string> names) {
    const auto attempt = Start(std::move(names));
    time_.Advance(200s);
    EXPECT_EQ(attempt->progress().phase, Phase::kDone);
    return *attempt->progress().result;
  }

  SimulatedTime time_;
  FakeFleet fleet_{time_};
  Spec spec_;
  EvidenceMemory* memory_ = nullptr;
  int changes_ = 0;
};

TEST_F(AttemptEvidenceTest, TheVerdictAndTheFilesAreWrittenByTheWorkers) {
  Tell("a", 0, /*waits=*/true);
  Tell("b", 1, /*waits=*/true);
  Tell("c", 2, /*waits=*/false);
  const AttemptResult result = Run({"a", "b", "c"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.ok, 3u);
  EXPECT_EQ(result.armed, 0u);
  EXPECT_EQ(result.stall.kind, "Host");
  ASSERT_THAT(result.stall.culprits, SizeIs(1));
  EXPECT_EQ(result.stall.culprits[0].pod, "c");
  EXPECT_EQ(result.stall.url, "file:///logs/evidence.json");
  EXPECT_GT(result.bytes, 0u);
  std::size_t manifests = 0;
  for (const char* name : {"a", "b", "c"}) {
    FakeSidecar& sidecar = fleet_[name];
    EXPECT_EQ(sidecar.checks, 0) << "evidence needs no preflight";
    ASSERT_FALSE(sidecar.published.empty());
    const v1::PublishRequest& own = sidecar.published.front();
    EXPECT_EQ(own.evidence_files_size(), 2);
    EXPECT_EQ(own.evidence_worker(), name);
    EXPECT_EQ(own.run(), "run");
    EXPECT_THAT(own.manifest(), IsEmpty());
    for (const v1::PublishRequest& request : sidecar.published) {
      if (request.manifest().empty()) continue;
      ++manifests;
      EXPECT_THAT(request.evidence(), HasSubstr("\"captureId\": \"uid-1\""));
    }
  }
  EXPECT_EQ(manifests, 1u);
}

TEST_F(AttemptEvidenceTest, TheVerdictIsKnownBeforeItIsWritten) {
  Tell("a", 0, /*waits=*/true);
  Tell("b", 1, /*waits=*/false);
  fleet_["a"].publish_takes = 5s;
  const auto attempt = Start({"a", "b"});
  time_.Advance(100ms);
  EXPECT_EQ(attempt->progress().phase, Phase::kPublishing);
  ASSERT_NE(attempt->progress().stall, nullptr);
  EXPECT_EQ(attempt->progress().stall->kind, "Host");
}

TEST_F(AttemptEvidenceTest, WorkersThatTellNothingAreNamedAndNotWaitedForLong) {
  Tell("a", 0, /*waits=*/true);
  fleet_["b"].evidence.reset();
  Tell("c", 2, /*waits=*/true);
  fleet_["c"].evidence_takes = 100s;
  fleet_["d"].evidence = absl::StatusOr<v1::ReadEvidenceResponse>(
      absl::FailedPreconditionError("its evidence may not be read"));
  const auto attempt = Start({"a", "b", "c", "d"});
  time_.Advance(AttemptEvidence::kAnswerTimeout + 1s);
  ASSERT_NE(attempt->progress().stall, nullptr);
  time_.Advance(100s);
  const AttemptResult result = *attempt->progress().result;
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_NE(result.stall.confidence, "Firm");
  EXPECT_EQ(result.workers[1].outcome, Outcome::kVersionMismatch);
  EXPECT_EQ(result.workers[2].outcome, Outcome::kUnreachable);
  EXPECT_EQ(result.workers[3].outcome, Outcome::kNoSource);
  EXPECT_THAT(result.stall.text, HasSubstr("Nothing came from b: its sidecar is too old"));
  EXPECT_THAT(result.stall.text, HasSubstr("Nothing came from d: its evidence may not be read"));
}

TEST_F(AttemptEvidenceTest, FewWorkersAskRasAndAllShareTheMemory) {
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    names.push_back(StrCat("w", i));
    Tell(names.back(), i, /*waits=*/true);
  }
  const AttemptResult result = Run(names);
  for (int i = 0; i < 6; ++i) {
    ASSERT_THAT(fleet_[names[static_cast<std::size_t>(i)]].evidence_asked, SizeIs(1));
    const v1::ReadEvidenceRequest& asked =
        fleet_[names[static_cast<std::size_t>(i)]].evidence_asked[0];
    EXPECT_EQ(asked.kinds_size(), i < 2 ? 0 : 3) << i;
    EXPECT_EQ(asked.max_bytes(), 8u << 20);
  }
}

TEST_F(AttemptEvidenceTest, WithLittleMemoryLessIsAskedForAndWithNoneNothing) {
  EvidenceMemory memory(3u << 20);
  memory_ = &memory;
  Tell("a", 0, /*waits=*/true);
  EXPECT_TRUE(Run({"a"}).succeeded);
  EXPECT_EQ(fleet_["a"].evidence_asked[0].max_bytes(), 2u << 20);
  EXPECT_NE(memory.Take(3u << 20), nullptr) << "it is free again";

  EvidenceMemory none(1000);
  memory_ = &none;
  Tell("b", 0, /*waits=*/true);
  const AttemptResult result = Run({"b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.workers[0].outcome, Outcome::kBusy);
  EXPECT_THAT(fleet_["b"].evidence_asked, IsEmpty());
}

TEST_F(AttemptEvidenceTest, OfAVeryLargeJobTheFirstWorkersAreAsked) {
  constexpr std::size_t kAsked = 4096;
  EvidenceMemory memory(AttemptEvidence::kMaxJobBytes);
  memory_ = &memory;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kAsked + 2; ++i) names.push_back(StrCat("w", i));
  Tell("w0", 0, /*waits=*/true);
  Tell("w4095", kAsked - 1, /*waits=*/false);
  Tell("w4096", kAsked, /*waits=*/false);
  const AttemptResult result = Run(names);
  EXPECT_EQ(result.workers[kAsked - 1].outcome, Outcome::kOk);
  EXPECT_EQ(fleet_["w4095"].evidence_asked.at(0).max_bytes(), 64u << 10);
  EXPECT_THAT(fleet_["w4096"].evidence_asked, IsEmpty());
  EXPECT_EQ(result.workers[kAsked].outcome, Outcome::kTruncated);
  EXPECT_THAT(result.workers[kAsked].message, HasSubstr("the first 4096 workers by rank"));
  EXPECT_THAT(result.workers[kAsked].message, HasSubstr("target.selector"));
}

TEST_F(AttemptEvidenceTest, WhatIsCancelledHasNoVerdict) {
  Tell("a", 0, /*waits=*/true);
  fleet_["a"].evidence_takes = 5s;
  const auto attempt = Start({"a"});
  time_.Advance(1s);
  attempt->Cancel("enough");
  time_.Advance(100s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  const AttemptResult& result = *attempt->progress().result;
  EXPECT_TRUE(result.cancelled);
  EXPECT_TRUE(result.stall.empty());
  EXPECT_THAT(fleet_["a"].published, IsEmpty());
}

TEST_F(AttemptEvidenceTest, FilesThatCannotBeWrittenAreTold) {
  Tell("a", 0, /*waits=*/true);
  fleet_["a"].publish = absl::PermissionDeniedError("the bucket refuses");
  const AttemptResult result = Run({"a"});
  EXPECT_EQ(result.stall.not_kept, "a: the bucket refuses");
  EXPECT_EQ(result.bytes, 0u);
  EXPECT_EQ(result.stall.kind.empty(), false);
}

}  // namespace
}  // namespace strobe::capture
