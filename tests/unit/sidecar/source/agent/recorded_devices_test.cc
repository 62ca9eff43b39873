#include "sidecar/source/agent/recorded_devices.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "agent/wire/ring_writer.h"
#include "agent/wire/ticks.h"

namespace strobe::source {
namespace {

using wire::DevicePhase;
using wire::RecordType;
using Before = RecordedDevices::Before;

constexpr std::uint64_t kDeviceWords = 8 * wire::kBlockWords;
constexpr std::int64_t kNsInSecond = 1'000'000'000;

// In these tests CUPTI's clock, ticks and CLOCK_MONOTONIC are the same.
std::int64_t SameTime(std::uint64_t ticks) { return static_cast<std::int64_t>(ticks); }

class RecordedDevicesTest : public testing::Test {
 protected:
  RecordedDevicesTest() : path_(mkdtemp(name_.data())) {
    wire::RingFile::Created created = wire::RingFile::Create(
        path_, {.max_rings = 1, .ring_words = wire::kBlockWords, .device_words = kDeviceWords}, {});
    EXPECT_TRUE(created.file && created.file.ReserveDevice());
    program_ = std::move(created.file);
    writer_.emplace(program_.device_ring(), program_.device_data(), kDeviceWords);
    header().uses_cuda = 1;
  }
  ~RecordedDevicesTest() override { std::filesystem::remove_all(path_); }

  wire::FileHeader& header() { return *program_.header(); }
  void Kernel(std::uint64_t end, std::uint32_t name = 0) {
    writer_->Record(RecordType::kKernel,
                    wire::KernelRecord{.begin = end, .end = end, .name = name});
  }
  void Moment(std::uint64_t ns, std::uint64_t lost = 0) {
    writer_->Record(RecordType::kClock,
                    wire::ClockRecord{.device_ns = ns, .ticks = ns, .lost = lost});
  }
  // What the flight recorder has made of the program.
  void Armed(std::uint32_t wish) {
    header().device_begin = writer_->position();
    header().device_control = wish;
    header().device_state = wire::DeviceState(wish, DevicePhase::kArmed);
    header().device_until = wire::MonotonicNs() + 5 * kNsInSecond;
  }
  void Drain(RecordedDevices& devices) {
    wire::RecordBuffer buffer;
    devices.Drain(buffer, budget_, &SameTime);
  }

  std::string name_ = "/tmp/strobe-devices-XXXXXX";
  const std::string path_;
  wire::RingFile program_;
  std::optional<wire::RingWriter> writer_;
  std::uint64_t budget_ = 1 << 20;
};

TEST_F(RecordedDevicesTest, ARequestThatIsBeingAnsweredGetsAnotherNumber) {
  header().device_state = wire::DeviceState(6, DevicePhase::kFlushed);
  header().device_control = 7;  // The program is arming, and has described its devices already.
  RecordedDevices devices(program_);
  devices.Arm({.before = Before::kHeld, .most = std::chrono::seconds(1)});
  EXPECT_EQ(header().device_control, 8u);
  header().device_state = wire::DeviceState(~0u, DevicePhase::kFlushed);
  header().device_control = 1;
  RecordedDevices others(program_);
  others.Arm({.most = std::chrono::seconds(1)});
  EXPECT_EQ(header().device_control, 2u) << "0 is no number";
}

TEST_F(RecordedDevicesTest, AsksForItsModeAndTellsTheOneThatWasUsed) {
  header().device_mode = wire::kBesideKineto | std::uint32_t{5};
  RecordedDevices devices(program_);
  devices.Arm({.most = std::chrono::seconds(1), .mode = 2});
  EXPECT_EQ(header().device_mode, 2u) << "nothing is left of an earlier request";
  EXPECT_EQ(devices.status().mode, DeviceMode::kKernels);
  devices.Disarm();
  Armed(header().device_control + 1);
  header().device_mode = 0;  // The flight recorder's.
  RecordedDevices takes_over(program_);
  takes_over.Arm({.before = Before::kHeld, .most = std::chrono::seconds(1), .mode = 2});
  EXPECT_EQ(header().device_mode, 0u) << "what is recorded already keeps its mode";
  EXPECT_EQ(takes_over.status().mode, DeviceMode::kLaunches);
}

TEST_F(RecordedDevicesTest, TheHolderOfCuptiIsTextOfAnyProgram) {
  RecordedDevices devices(program_);
  EXPECT_EQ(devices.status().holder, "");
  const std::string name = "CUPTI for Nsight\nSystems";
  std::copy(name.begin(), name.end(), header().device_holder);
  EXPECT_EQ(devices.status().holder.find('\n'), std::string::npos);
  EXPECT_TRUE(devices.status().holder.starts_with("Nsight"));
  std::fill(std::begin(header().device_holder), std::end(header().device_holder), '\xff');
  EXPECT_LE(devices.status().holder.size(), wire::kHolderBytes * 3);
}

TEST_F(RecordedDevicesTest, WhatWasRecordedLongBeforeTakesNoRoom) {
  Armed(7);
  for (std::uint64_t second = 1; second <= 20; ++second) {
    Kernel((second - 1) * kNsInSecond + 1);
    Moment(second * kNsInSecond, second);
  }
  header().device_lost = 20;
  budget_ = 8 * sizeof(wire::KernelRecord);
  RecordedDevices devices(program_);
  devices.Arm(
      {.before = Before::kHeld, .most = std::chrono::seconds(1), .since_ns = 17 * kNsInSecond});
  Drain(devices);
  EXPECT_EQ(devices.lost(), 0u);
  ASSERT_FALSE(devices.activity().kernels.empty());
  EXPECT_EQ(devices.activity().kernels.front().end, 16u * kNsInSecond + 1);
  EXPECT_EQ(devices.kept(), devices.activity().kernels.size());
  EXPECT_EQ(devices.first_ticks(), 16u * kNsInSecond) << "a second before the trace begins";
  EXPECT_EQ(devices.status().lost, 4u);
}

TEST_F(RecordedDevicesTest, EveryKernelOfAFullRingHasItsName) {
  Armed(7);
  std::uint64_t described = 0;
  bool second_half = false;
  for (std::uint64_t i = 1; i < 4'000; ++i) {
    // As agent/cupti does; the first kernel is launched no more from the middle on.
    second_half = i > 3'700;
    if (i == 1 || writer_->position() - described >= wire::AgainAfter(kDeviceWords)) {
      described = writer_->position();
      if (!second_half) writer_->Text(1, "first");
      writer_->Text(2, "second");
    }
    Kernel(i, second_half ? 2 : 1);
    if (i % 10 == 0) Moment(i);
  }
  RecordedDevices devices(program_);
  devices.Arm({.before = Before::kHeld, .most = std::chrono::seconds(1)});
  Drain(devices);
  EXPECT_EQ(devices.lost(), 0u) << "what was overwritten before is not missing";
  const DeviceActivity& activity = devices.activity();
  ASSERT_GT(activity.kernels.size(), 100u);
  for (const wire::KernelRecord& kernel : activity.kernels)
    EXPECT_NE(activity.Text(kernel.name), "?") << kernel.end;
  EXPECT_GE(activity.kernels.front().end + 10, activity.clocks.front().ticks);
}

TEST_F(RecordedDevicesTest, ACaptureInsistsUntilItsEnd) {
  RecordedDevices devices(program_);
  devices.Arm({.most = std::chrono::seconds(60)});
  const std::uint32_t wish = header().device_control;
  // The flight recorder had looked just before the capture took the lease.
  header().device_control = 0;
  header().device_until = wire::MonotonicNs() + 5 * kNsInSecond;
  Drain(devices);
  EXPECT_EQ(header().device_control, wish);
  EXPECT_GT(header().device_until, wire::MonotonicNs() + 50 * kNsInSecond);
  devices.Disarm();
  Drain(devices);
  EXPECT_EQ(header().device_control, 0u);
}

}  // namespace
}  // namespace strobe::source
