#include "agent/nccl/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "agent/wire/ticks.h"

namespace strobe::nccl {
namespace {

using wire::CollectiveLibrary;
using wire::DeviceTimes;

DeviceTimes Nccl(int version) {
  return DeviceTimesOf({.kind = CollectiveLibrary::kNccl, .version = version});
}
DeviceTimes Rccl(int version) {
  return DeviceTimesOf({.kind = CollectiveLibrary::kRccl, .version = version});
}

TEST(VersionGate, DevicesTimesOnlyWhereTheyAreCheap) {
  for (const int good : {22703, 22809, 22907, 23004, 23007})
    EXPECT_EQ(Nccl(good), DeviceTimes::kOnRequest) << good;
  // 2.31.2 cost 4 to 13 %; nothing newer is known to be better.
  for (const int slow : {23003, 23100, 23102, 23203})
    EXPECT_EQ(Nccl(slow), DeviceTimes::kSlowVersion) << slow;
  EXPECT_EQ(Rccl(22707), DeviceTimes::kSlowVersion) << "it crashed";
  EXPECT_EQ(Rccl(22803), DeviceTimes::kOnRequest);
  EXPECT_EQ(DeviceTimesOf({}), DeviceTimes::kOtherLibrary);
}

TEST(VersionGate, AnAddressWithoutALibraryTellsNothing) {
  EXPECT_EQ(LibraryAt(nullptr).version, 0);
  int on_the_stack = 0;
  EXPECT_EQ(LibraryAt(&on_the_stack).version, 0);
  EXPECT_EQ(LibraryAt(reinterpret_cast<const void*>(&Nccl)).version, 0)
      << "this program has no ncclGetVersion";
}

}  // namespace
namespace {

namespace fs = std::filesystem;

using wire::CollectiveCall;
using wire::CollectiveCopy;
using wire::CollectiveFile;

PluginSettings* settings = nullptr;

// The plugin alone, without one behind it.
class PluginTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / (std::string("plugin_") + test->name() + ".nccl");
    fs::remove(path_);
    settings_.path = path_;
    settings_.device_times = true;
    settings = &settings_;
    setenv("STROBE_NCCL_CHAIN", "none", 1);
  }
  void TearDown() override {
    while (!begun_.empty()) Finish(begun_.back());
    fs::remove(path_);
  }

  void* Init(int interface = 6) {
    void* context = nullptr;
    EXPECT_EQ(
        plugin_->Init(
            {.interface = interface, .address = nullptr, .settings = [] { return *settings; }},
            &context, &mask_, {.id = 0xabc, .name = "tensor", .nodes = 1, .ranks = 8, .rank = 3}),
        kSuccess);
    file_ = CollectiveFile::Map(path_);
    begun_.push_back(context);
    return context;
  }
  void Finish(void* context) {
    std::erase(begun_, context);
    EXPECT_EQ(plugin_->Finish(context), kSuccess);
  }
  CollectiveCopy At(std::uint64_t number) {
    CollectiveCopy copy;
    EXPECT_TRUE(file_.Check() && file_.Read(number, copy)) << number;
    return copy;
  }
  void* Start(void* context, const EventV5& event) {
    void* handle = context;  // Anything, to see that it is set.
    EXPECT_EQ(plugin_->Start(context, &handle, event), kSuccess);
    return handle;
  }
  static EventV5 Call() {
    EventV5 event = {};
    event.type = kCollectiveCall;
    event.collective_call = {.function = "AllGather",
                             .count = 1024,
                             .type = "ncclFloat32",
                             .root = 0,
                             .stream = nullptr,
                             .captured = false};
    return event;
  }
  static EventV5 Task(void* call) {
    EventV5 event = {};
    event.type = kCollective;
    event.parent = call;
    event.collective.call.function = "AllGather";
    event.collective.call.sequence = 41;
    event.collective.call.count = 4096;  // NCCL turns elements into bytes.
    event.collective.call.type = "ncclInt8";
    event.collective.call.channels = 1;
    return event;
  }

  fs::path path_;
  PluginSettings settings_;
  std::vector<void*> begun_{};  // Contexts that are to be finished.
  const std::unique_ptr<CollectivePlugin> plugin_ = std::make_unique<CollectivePlugin>();
  CollectiveFile file_;
  int mask_ = 0;
};

TEST_F(PluginTest, ACallAndItsTaskAreOneRecord) {
  void* const context = Init();
  EXPECT_EQ(mask_, kCollective | kTransfer);
  void* const call = Start(context, Call());
  ASSERT_NE(call, nullptr);
  plugin_->Stop(call);
  EXPECT_EQ(At(0).launched, 0u);
  void* const task = Start(context, Task(call));
  plugin_->Stop(task);
  EXPECT_EQ(file_.header()->made.load(), 1u);
  EXPECT_EQ(At(0).key.call, CollectiveCall::kAllGather);
  EXPECT_EQ(At(0).count, 1024u);
  EXPECT_EQ(At(0).sequence, 41u);
  EXPECT_NE(At(0).launched, 0u);
  Finish(context);
}

TEST_F(PluginTest, WithoutACallTheTaskIsTheRecord) {
  void* const context = Init(4);
  EventV4 task = AsVersion4(Task(nullptr));
  task.parent = &mask_;  // Its group.
  void* handle = nullptr;
  plugin_->StartVersion4(context, &handle, task);
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(At(0).sequence, 41u);
  EXPECT_EQ(At(0).ordinal, 1u);
}

TEST_F(PluginTest, GroupsGetNoHandle) {
  void* const context = Init();
  for (const int type : {kGroup, kGroupCall, kKernelLaunch, kProxyOperation}) {
    EventV5 event = {};
    event.type = static_cast<std::uint64_t>(type);
    EXPECT_EQ(Start(context, event), nullptr) << type;
  }
  EXPECT_EQ(file_.header()->made.load(), 0u);
}

TEST_F(PluginTest, DevicesTimesAreAskedForOnlyWhileTheyAreWanted) {
  void* const context = Init();
  wire::CollectiveHeader& header = *file_.header();
  EXPECT_EQ(header.device_times, wire::DeviceTimes::kOtherLibrary) << "nobody knows its version";
  header.device_times = wire::DeviceTimes::kOnRequest;
  Start(context, Call());
  EXPECT_EQ(mask_, kCollective | kTransfer);
  header.device_times_until = wire::MonotonicNs() + 60'000'000'000;
  void* const task = Start(context, Task(Start(context, Call())));
  EXPECT_EQ(mask_, kCollective | kTransfer | kKernelChannel);
  EventV5 kernel = {};
  kernel.type = kKernelChannel;
  kernel.parent = task;
  kernel.kernel = {.channel = 0, .device_ns = 500};
  void* const handle = Start(context, kernel);
  StateDetails details{.device_ns = 900};
  plugin_->State(handle, kKernelChannelStop, &details);
  plugin_->Stop(handle);
  EXPECT_EQ(At(1).device_begin, 500u);
  EXPECT_EQ(At(1).device_end, 900u);
  // The sidecar died.
  header.device_times_until = 1;
  Start(context, Call());
  EXPECT_EQ(mask_, kCollective | kTransfer);
}

TEST_F(PluginTest, WithoutAFileItAsksForNothing) {
  settings_.path = "";
  void* const context = Init();
  EXPECT_EQ(mask_, 0);
  EXPECT_EQ(Start(context, Call()), nullptr);
  Finish(context);
}

TEST_F(PluginTest, AForkedChildLeavesItsParentsFileAlone) {
  void* const context = Init();
  plugin_->AfterFork();
  EXPECT_EQ(Start(context, Call()), nullptr);
  EXPECT_EQ(file_.header()->made.load(), 0u);
}

}  // namespace
}  // namespace strobe::nccl
