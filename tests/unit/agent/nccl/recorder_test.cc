#include "agent/nccl/recorder.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

namespace strobe::nccl {
namespace {

namespace fs = std::filesystem;

using wire::CollectiveCall;
using wire::CollectiveCopy;
using wire::CollectiveFile;

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / (std::string("recorder_") + test->name() + ".nccl");
    fs::remove(path_);
    ASSERT_TRUE(recorder_->Open(path_));
    file_ = CollectiveFile::Map(path_);
    ASSERT_TRUE(file_.Check());
  }
  void TearDown() override { fs::remove(path_); }

  CollectiveCopy At(std::uint64_t number) {
    CollectiveCopy copy;
    EXPECT_TRUE(file_.Read(number, copy)) << number;
    return copy;
  }

  fs::path path_;
  const std::unique_ptr<Recorder> recorder_ = std::make_unique<Recorder>();
  CollectiveFile file_;
};

TEST_F(RecorderTest, ACallIsToldWithItsNumberInTheCommunicator) {
  const std::uint32_t a =
      recorder_->AddCommunicator({.id = 0xa, .name = "tensor", .rank = 3, .ranks = 8, .nodes = 1});
  const std::uint32_t b = recorder_->AddCommunicator({.id = 0xb, .rank = 0, .ranks = 2});
  for (const std::uint32_t communicator : {a, b, a})
    recorder_->Begin({.communicator = communicator,
                      .call = CollectiveCall::kAllReduce,
                      .type = wire::ElementType::kFloat32,
                      .peer = 0,
                      .count = 1024});
  recorder_->Launched(2, {.sequence = 1, .channels = 4, .algorithm = "RING", .protocol = "LL"});
  const CollectiveCopy last = At(2);
  EXPECT_EQ(last.ordinal, 2u) << "the third call is the second one of its communicator";
  EXPECT_EQ(last.sequence, 1u);
  EXPECT_EQ(last.count, 1024u);
  EXPECT_EQ(last.key.call, CollectiveCall::kAllReduce);
  EXPECT_EQ(last.how.channels, 4);
  EXPECT_GE(last.launched, last.begin);
  EXPECT_EQ(At(1).launched, 0u) << "the library has not enqueued it";
  const auto communicators = file_.Communicators();
  ASSERT_EQ(communicators.size(), 2u);
  EXPECT_EQ(communicators[0].name, "tensor");
  EXPECT_EQ(communicators[0].ranks, 8);
  EXPECT_EQ(communicators[0].collectives, 2u);
  EXPECT_EQ(communicators[0].launched, 1u);
  EXPECT_EQ(communicators[0].newest_begin, last.begin);
  EXPECT_FALSE(communicators[0].has_ended);
  recorder_->EndCommunicator(a);
  EXPECT_TRUE(file_.Communicators()[0].has_ended);
}

TEST_F(RecorderTest, TransfersAreCountedByPeerAndDirection) {
  const std::uint32_t group = recorder_->AddCommunicator({.id = 1, .rank = 0, .ranks = 4});
  const auto transfer = [&](CollectiveCall call, int peer) {
    const std::uint64_t number =
        recorder_->Begin({.communicator = group, .call = call, .count = 1});
    recorder_->Launched(number, {.peer = peer});
    return At(number).sequence;
  };
  EXPECT_EQ(transfer(CollectiveCall::kSend, 1), 1u);
  EXPECT_EQ(transfer(CollectiveCall::kSend, 2), 1u);
  EXPECT_EQ(transfer(CollectiveCall::kReceive, 1), 1u);
  EXPECT_EQ(transfer(CollectiveCall::kSend, 1), 2u);
  EXPECT_EQ(file_.Communicators()[0].transfers, 4u);
  EXPECT_EQ(file_.Communicators()[0].collectives, 0u);
}

TEST_F(RecorderTest, DevicesTimesSpanAllChannels) {
  const std::uint32_t group = recorder_->AddCommunicator({.id = 1, .rank = 0, .ranks = 4});
  const std::uint64_t number =
      recorder_->Begin({.communicator = group, .call = CollectiveCall::kAllGather});
  recorder_->Launched(number, {.channels = 2});
  recorder_->DeviceBegan(number, 1000);
  recorder_->DeviceEnded(number, 1800);
  EXPECT_FALSE(At(number).has_device_times()) << "the second channel still runs";
  recorder_->DeviceBegan(number, 900);
  recorder_->DeviceEnded(number, 1700);
  EXPECT_TRUE(At(number).has_device_times());
  EXPECT_EQ(At(number).device_begin, 900u);
  EXPECT_EQ(At(number).device_end, 1800u);
}

// NCCL told 0 as the end of some channels (https://github.com/NVIDIA/nccl/pull/1973).
TEST_F(RecorderTest, AnEndOfZeroIsNoTime) {
  const std::uint64_t number = recorder_->Begin({.call = CollectiveCall::kAllGather});
  recorder_->DeviceBegan(number, 1000);
  recorder_->DeviceEnded(number, 0);
  EXPECT_FALSE(At(number).has_device_times());
}

TEST_F(RecorderTest, OldCallsAreOverwrittenAndNotChangedAnyMore) {
  const std::uint64_t first = recorder_->Begin({.call = CollectiveCall::kBroadcast});
  for (std::uint32_t i = 0; i < wire::kCollectiveRecords; ++i)
    recorder_->Begin({.call = CollectiveCall::kAllReduce});
  CollectiveCopy copy;
  EXPECT_FALSE(file_.Read(first, copy));
  recorder_->Launched(first, {.sequence = 77});
  recorder_->DeviceBegan(first, 5);
  EXPECT_EQ(At(wire::kCollectiveRecords).sequence, 0u);
  EXPECT_EQ(recorder_->CallOf(first), CollectiveCall::kOther);
  EXPECT_EQ(file_.header()->without_entry.load(), wire::kCollectiveRecords + 1u);
}

TEST_F(RecorderTest, ThreadsMayCallAtTheSameTime) {
  constexpr int kThreads = 4, kCalls = 1000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto group = static_cast<std::uint32_t>(i);
      for (int call = 0; call < kCalls; ++call)
        recorder_->Launched(
            recorder_->Begin({.communicator = group, .call = CollectiveCall::kAllReduce}), {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::array<std::uint64_t, kThreads> calls{};
  for (std::uint64_t number = 0; number < kThreads * kCalls; ++number) {
    const CollectiveCopy copy = At(number);
    ASSERT_LT(copy.key.communicator, kThreads);
    EXPECT_EQ(copy.ordinal, ++calls[copy.key.communicator]);
    EXPECT_NE(copy.launched, 0u);
  }
}

TEST_F(RecorderTest, MoreCommunicatorsThanThereIsRoomFor) {
  for (std::uint32_t i = 0; i < wire::kCollectiveCommunicators; ++i)
    EXPECT_EQ(recorder_->AddCommunicator({.id = i}), i);
  EXPECT_EQ(recorder_->AddCommunicator({.id = 9}), kNoCommunicator);
  recorder_->Begin({.communicator = kNoCommunicator, .call = CollectiveCall::kAllReduce});
  EXPECT_EQ(At(0).ordinal, 0u);
}

}  // namespace
}  // namespace strobe::nccl
