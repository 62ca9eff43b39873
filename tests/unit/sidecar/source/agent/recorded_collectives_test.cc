#include "sidecar/source/agent/recorded_collectives.h"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

namespace strobe::source {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::SizeIs;

// A program that writes its file as agent/nccl does.
class CollectivesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / (std::string("recorded_") + test->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    rings_ = dir_ / "7-8.rings";
  }
  void TearDown() override { fs::remove_all(dir_); }

  void Create() {
    file_ = wire::CollectiveFile::Create(wire::CollectivePath(rings_));
    ASSERT_TRUE(file_);
  }
  void AddGroup(std::uint64_t id, int rank, int ranks) {
    const std::uint32_t index = file_.header()->communicators.fetch_add(1);
    wire::CollectiveCommunicator& group = *file_.communicator(index);
    group.id = id;
    group.rank = rank;
    group.ranks = ranks;
  }
  // Returns the call's number.
  std::uint64_t Call(std::uint16_t group, wire::CollectiveCall call, std::uint64_t begin,
                     int peer = -1, std::uint64_t sequence = 0) {
    const wire::CallKey key{
        .communicator = group, .call = call, .type = wire::ElementType::kFloat32, .peer = peer};
    const std::uint64_t number = file_.header()->made.fetch_add(1);
    wire::CollectiveCommunicator& entry = *file_.communicator(group);
    wire::CollectiveRecord& record = *file_.record(number);
    record.stamp = 2 * number + 1;
    record.begin = begin;
    record.launched = 0;
    record.count = 1024;
    record.sequence = sequence;
    record.key = std::bit_cast<std::uint64_t>(key);
    record.how = 0;
    record.channels_begun = record.channels_ended = 0;
    if (wire::IsTransfer(call)) {
      record.ordinal = ++entry.transfers;
    } else {
      record.ordinal = ++entry.collectives;
      entry.newest_begin = begin;
      entry.newest_count = 1024;
      entry.newest_key = std::bit_cast<std::uint64_t>(key);
    }
    record.stamp = 2 * number + 2;
    return number;
  }
  std::uint64_t Reduce(std::uint64_t begin) {
    return Call(0, wire::CollectiveCall::kAllReduce, begin);
  }
  static std::vector<std::uint64_t> Begins(const RecordedCollectives& recorded) {
    std::vector<std::uint64_t> begins;
    for (const wire::CollectiveCopy& call : recorded.activity().calls) begins.push_back(call.begin);
    return begins;
  }

  fs::path dir_, rings_;
  wire::CollectiveFile file_;
  std::uint64_t budget_ = 1 << 20;
};

TEST_F(CollectivesTest, CallsFromNowOn) {
  Create();
  AddGroup(0xa, 0, 2);
  Reduce(10);
  RecordedCollectives recorded(rings_, /*holds_before=*/false);
  recorded.Drain(budget_);
  Reduce(20);
  recorded.Drain(budget_);
  EXPECT_THAT(Begins(recorded), ElementsAre(20));
  EXPECT_THAT(recorded.activity().communicators, SizeIs(1));
  RecordedCollectives held(rings_, /*holds_before=*/true);
  held.Drain(budget_);
  EXPECT_THAT(Begins(held), ElementsAre(10, 20));
}

TEST_F(CollectivesTest, AFileThatIsMadeDuringTheCaptureBelongsToItWhole) {
  RecordedCollectives recorded(rings_, /*holds_before=*/false);
  recorded.RequestDeviceTimes(5'000);
  recorded.Drain(budget_);
  EXPECT_THAT(Begins(recorded), testing::IsEmpty());
  Create();
  AddGroup(0xa, 0, 2);
  Reduce(10);
  recorded.Drain(budget_);
  EXPECT_THAT(Begins(recorded), ElementsAre(10));
  EXPECT_EQ(file_.header()->device_times_until.load(), 5'000u);
  recorded.RequestDeviceTimes(0);
  EXPECT_EQ(file_.header()->device_times_until.load(), 0u);
}

TEST_F(CollectivesTest, WhatTheLibraryAddsLaterIsReadLater) {
  Create();
  AddGroup(0xa, 0, 2);
  RecordedCollectives recorded(rings_, /*holds_before=*/true);
  recorded.RequestDeviceTimes(1);
  const std::uint64_t number = Reduce(10);
  recorded.Drain(budget_);
  EXPECT_FALSE(recorded.activity().calls.at(0).has_device_times());
  wire::CollectiveRecord& record = *file_.record(number);
  record.launched = 12;
  record.device_begin = 100;
  record.device_end = 200;
  record.channels_begun = record.channels_ended = 1;
  recorded.Drain(budget_);
  EXPECT_EQ(recorded.activity().calls.at(0).launched, 12u);
  EXPECT_TRUE(recorded.activity().calls.at(0).has_device_times());
  EXPECT_THAT(Begins(recorded), ElementsAre(10));
}

TEST_F(CollectivesTest, WhatIsOverwrittenOrDoesNotFitIsCounted) {
  Create();
  AddGroup(0xa, 0, 2);
  RecordedCollectives recorded(rings_, /*holds_before=*/true);
  budget_ = 1 << 30;
  recorded.Drain(budget_);
  for (std::uint32_t i = 0; i < wire::kCollectiveRecords + 5; ++i) Reduce(i);
  recorded.Drain(budget_);
  EXPECT_EQ(recorded.activity().lost, 5u);
  EXPECT_EQ(Begins(recorded).front(), 5u);
  budget_ = 10;
  Reduce(1);
  recorded.Drain(budget_);
  EXPECT_EQ(recorded.activity().lost, 6u);
}

// A thread that was killed between two words would hide all later calls otherwise.
TEST_F(CollectivesTest, ACallThatIsNeverTold) {
  Create();
  AddGroup(0xa, 0, 2);
  RecordedCollectives recorded(rings_, /*holds_before=*/true);
  file_.header()->made.fetch_add(1);
  Reduce(20);
  recorded.Drain(budget_);
  EXPECT_THAT(Begins(recorded), testing::IsEmpty()) << "it may still come";
  for (std::uint64_t i = 0; i < 100; ++i) Reduce(30 + i);
  recorded.Drain(budget_);
  EXPECT_EQ(Begins(recorded).front(), 20u);
  EXPECT_EQ(recorded.activity().lost, 1u);
}

TEST_F(CollectivesTest, AForgedFileIsNotRead) {
  { ASSERT_TRUE(wire::CollectiveFile::Create(wire::CollectivePath(rings_))); }
  fs::resize_file(wire::CollectivePath(rings_), 5000);
  EXPECT_FALSE(OpenCollectives(rings_).file);
  fs::remove(wire::CollectivePath(rings_));
  fs::create_directory(wire::CollectivePath(rings_));
  EXPECT_FALSE(OpenCollectives(rings_).file);
}

}  // namespace
}  // namespace strobe::source
