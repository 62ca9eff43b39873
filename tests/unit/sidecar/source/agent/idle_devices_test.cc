#include "sidecar/source/agent/idle_devices.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "agent/wire/ticks.h"

namespace strobe::source {
namespace {

using wire::DevicePhase;

constexpr std::uint64_t kOneSecond = 1'000'000'000;
constexpr std::uint64_t kToday = 1000 * kOneSecond;
// A program that has used CUDA for a while.
constexpr DeviceView kSettled{.uses_cuda = true, .cuda_since_ns = kToday - 60 * kOneSecond};

TEST(NextDeviceAction, ArmsProgramsThatHaveSettled) {
  EXPECT_EQ(NextDeviceAction({}, kToday), DeviceAction::kNone) << "there is no CUDA";
  EXPECT_EQ(NextDeviceAction(kSettled, kToday), DeviceAction::kArm);
  DeviceView young = kSettled;
  young.cuda_since_ns = kToday - kOneSecond;
  EXPECT_EQ(NextDeviceAction(young, kToday), DeviceAction::kNone)
      << "its framework may announce itself";
}

TEST(NextDeviceAction, LeavesDevicesToFrameworksAndToProgramsThatKeepThem) {
  DeviceView view = kSettled;
  view.left_to_framework = true;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kNone);
  view.wish = 3;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kWithdraw)
      << "it came when they were armed";
  view = kSettled;
  view.refusal = wire::DeviceRefusal::kSwitchedOff;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kNone);
}

TEST(NextDeviceAction, ExtendsWhatIsArmedAndWaitsForAnAnswer) {
  DeviceView view = kSettled;
  view.wish = view.answered = 3;
  view.phase = DevicePhase::kArmed;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kExtend);
  view.answered = 2;
  view.phase = DevicePhase::kFlushed;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kExtend);
}

TEST(NextDeviceAction, ArmsAgainAfterACaptureAndAfterTheWishRanOut) {
  DeviceView view = kSettled;
  view.answered = 3;
  view.phase = DevicePhase::kFlushed;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kArm);
  view.wish = 3;
  EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kArm);
}

TEST(NextDeviceAction, TriesARefusalAgainAfterAMinute) {
  for (const DevicePhase phase : {DevicePhase::kFailed, DevicePhase::kNoCupti, DevicePhase::kKineto,
                                  DevicePhase::kFramework, DevicePhase::kNoCuda}) {
    DeviceView view = kSettled;
    view.wish = view.answered = 3;
    view.phase = phase;
    EXPECT_EQ(NextDeviceAction(view, kToday), DeviceAction::kWithdraw);
    view.wish = 0;
    view.failed_ns = kToday;
    EXPECT_EQ(NextDeviceAction(view, kToday + 59 * kOneSecond), DeviceAction::kNone);
    EXPECT_EQ(NextDeviceAction(view, kToday + 60 * kOneSecond), DeviceAction::kArm);
  }
}

class IdleDevicesTest : public testing::Test {
 protected:
  IdleDevicesTest() : path_(mkdtemp(name_.data())) {
    wire::RingFile::Created created =
        wire::RingFile::Create(path_, {.max_rings = 4, .ring_words = 4 * wire::kBlockWords}, {});
    EXPECT_TRUE(created.file && created.file.Publish());
    program_ = std::move(created.file);
    sidecar_ = wire::RingFile::Open(program_.path());
    header().uses_cuda = 1;
  }
  ~IdleDevicesTest() override { std::filesystem::remove_all(path_); }
  wire::FileHeader& header() { return *program_.header(); }
  // What the program's thread does.
  void Answer(DevicePhase phase) {
    header().device_state = wire::DeviceState(header().device_control.load(), phase);
  }

  std::string name_ = "/tmp/strobe-idle-XXXXXX";
  const std::string path_;
  wire::RingFile program_, sidecar_;
  IdleDevices devices_{PortsOf({"localhost:9012"})};
};

TEST_F(IdleDevicesTest, NothingIsLeftOfTheOptionsOfACapture) {
  header().device_mode = wire::kBesideKineto | std::uint32_t{2};
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_mode, 0u);
}

TEST_F(IdleDevicesTest, ArmsExtendsAndReleases) {
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 1u);
  EXPECT_EQ(header().framework_ports[0], 9012u);
  EXPECT_GT(header().device_until.load(), wire::MonotonicNs());
  Answer(DevicePhase::kArmed);
  header().device_until = 1;
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 1u);
  EXPECT_GT(header().device_until.load(), wire::MonotonicNs());
  IdleDevices::Release(sidecar_);
  EXPECT_EQ(header().device_control, 0u);
  header().device_state = wire::DeviceState(~0u, DevicePhase::kFlushed);
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 1u) << "0 would be no wish";
}

TEST_F(IdleDevicesTest, LetsProgramsLookNowAndThenForAServerOfTheirOwn) {
  devices_.Attend(sidecar_, false);
  Answer(DevicePhase::kArmed);
  const std::uint32_t told = header().framework_ports_reported;
  for (int i = 0; i < 20; ++i) devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().framework_ports_reported, told + 2);
}

TEST_F(IdleDevicesTest, LeavesAProgramToTheCaptureThatHoldsIt) {
  wire::RingFile capture = wire::RingFile::Open(program_.path());
  ASSERT_TRUE(capture.Lease());
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 0u);
  header().device_control = 9;
  IdleDevices::Release(sidecar_);
  EXPECT_EQ(header().device_control, 9u);
  header().device_until = 1;
  devices_.Attend(sidecar_, false);
  EXPECT_GT(header().device_until.load(), wire::MonotonicNs()) << "it does not run out";
  const std::uint64_t long_time = wire::MonotonicNs() + 60 * kOneSecond;
  header().device_until = long_time;
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_until, long_time);
  capture = wire::RingFile();
  Answer(DevicePhase::kFlushed);
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 10u);
}

TEST_F(IdleDevicesTest, WithdrawsWhatIsRefusedAndForgetsItWithTheFile) {
  devices_.Attend(sidecar_, false);
  Answer(DevicePhase::kFailed);
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 0u);
  devices_.ForgetOthers();
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 0u) << "not a second after it was refused";
  devices_.ForgetOthers();
  devices_.ForgetOthers();  // The file was not there.
  devices_.Attend(sidecar_, false);
  EXPECT_EQ(header().device_control, 2u);
}

}  // namespace
}  // namespace strobe::source
