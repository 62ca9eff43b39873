#include "sidecar/stall/collective_evidence.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/nccl/recorder.h"

namespace strobe::stall {
namespace {

namespace fs = std::filesystem;

using wire::CollectiveCall;

// Programs that record by the agent's own recorder.
class CollectiveEvidenceTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / (std::string("calls_") + test->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    ASSERT_TRUE(recorder_->Open(dir_ / "7-8.nccl"));
    file_ = wire::CollectiveFile::Map(dir_ / "7-8.nccl");
    ASSERT_TRUE(file_.Check());
  }
  void TearDown() override { fs::remove_all(dir_); }

  void Call(std::uint32_t group, CollectiveCall call) {
    recorder_->Begin(
        {.communicator = group, .call = call, .type = wire::ElementType::kFloat32, .count = 1024});
  }
  nlohmann::json Evidence() const {
    return nlohmann::json::parse(
        CollectiveEvidence(file_, wire::MonotonicMoment(wire::BestTicks()), 0));
  }

  fs::path dir_;
  const std::unique_ptr<nccl::Recorder> recorder_ = std::make_unique<nccl::Recorder>();
  wire::CollectiveFile file_;
};

// A program that is hung tells its newest calls, however many other communicators called since.
TEST_F(CollectiveEvidenceTest, TheNewestCallsOfEachCommunicator) {
  EXPECT_EQ(CollectiveEvidence(file_, wire::MonotonicMoment(wire::BestTicks()), 0), "");
  recorder_->AddCommunicator({.id = 0xa, .name = "tensor", .rank = 1, .ranks = 4});
  recorder_->AddCommunicator({.id = 0xb, .rank = 0, .ranks = 2});
  Call(0, CollectiveCall::kAllReduce);
  Call(1, CollectiveCall::kSend);
  recorder_->Launched(1, {.peer = 1});
  Call(1, CollectiveCall::kReceive);  // Not enqueued: its peer is not known.
  for (std::uint32_t i = 0; i < wire::kCollectiveRecords - 4; ++i)
    Call(1, CollectiveCall::kAllGather);
  EXPECT_EQ(Evidence()["whole"], true);
  EXPECT_EQ(Evidence()["communicators"][1]["calls"].size(), 32u);
  Call(1, CollectiveCall::kAllGather);
  Call(1, CollectiveCall::kAllGather);
  const nlohmann::json last = Evidence();
  EXPECT_EQ(last["whole"], false);
  const nlohmann::json& groups = last["communicators"];
  EXPECT_EQ(groups[0]["id"], "0xa");
  EXPECT_EQ(groups[0]["rank"], 1);
  ASSERT_EQ(groups[0]["calls"].size(), 1u);
  EXPECT_EQ(groups[0]["calls"][0]["number"], 1);
  EXPECT_EQ(groups[0]["calls"][0]["call"], "AllReduce");
  ASSERT_EQ(groups[1]["transfers"].size(), 1u);
  EXPECT_EQ(groups[1]["transfers"][0]["number"], 1);
  EXPECT_EQ(groups[1]["transfers"][0]["bytes"], 4096);
  recorder_->EndCommunicator(0);
  EXPECT_EQ(Evidence()["communicators"].size(), 1u);
}

TEST_F(CollectiveEvidenceTest, IsNotWholeOnceACommunicatorFoundNoEntry) {
  for (std::uint32_t i = 0; i < wire::kCollectiveCommunicators; ++i)
    EXPECT_EQ(recorder_->AddCommunicator({.id = i, .rank = 0, .ranks = 2}), i);
  Call(0, CollectiveCall::kAllReduce);
  EXPECT_EQ(Evidence()["whole"], true);
  const std::uint32_t none = recorder_->AddCommunicator({.id = 0xffff, .rank = 0, .ranks = 2});
  Call(none, CollectiveCall::kAllReduce);
  EXPECT_EQ(Evidence()["whole"], false);
}

TEST_F(CollectiveEvidenceTest, ProgramsByTheirRanks) {
  recorder_->AddCommunicator({.id = 0xa, .rank = 1, .ranks = 4});
  Call(0, CollectiveCall::kAllReduce);
  recorder_->header()->rank = -1;
  recorder_->header()->pid = 77;
  EXPECT_THAT(ReadCollectiveEvidence(dir_, {}, 0), testing::IsEmpty()) << "whose is it?";
  std::map<int, EvidenceProcess> processes;
  processes[5].pid = 77;
  EXPECT_TRUE(ReadCollectiveEvidence(dir_, processes, 0).contains(5));
  recorder_->header()->rank = 3;
  EXPECT_TRUE(ReadCollectiveEvidence(dir_, processes, 0).contains(3));
  fs::resize_file(dir_ / "7-8.nccl", 5000);
  EXPECT_THAT(ReadCollectiveEvidence(dir_, processes, 0), testing::IsEmpty());
  EXPECT_THAT(ReadCollectiveEvidence(dir_ / "none", processes, 0), testing::IsEmpty());
}

}  // namespace
}  // namespace strobe::stall
