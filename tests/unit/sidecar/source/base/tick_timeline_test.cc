#include "sidecar/source/base/tick_timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace strobe::source {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

// A machine whose counter ticks three times in a nanosecond.
struct Machine {
  std::int64_t ns = 1000 * kSecondNs;
  std::uint64_t ticks = 77;
  double rate = 3;

  void Pass(std::int64_t time) {
    ns += time;
    ticks += static_cast<std::uint64_t>(static_cast<double>(time) * rate);
  }
  wire::TickMoment now() const { return {ticks, static_cast<std::uint64_t>(ns)}; }
};

// Notes every 10 ms, as a sidecar looks at rings.
void NoteFor(std::int64_t time, Machine& machine, TickTimeline& timeline) {
  for (std::int64_t passed = 0; passed < time; passed += 10'000'000) {
    machine.Pass(10'000'000);
    timeline.Note(machine.now());
  }
}

TEST(TickTimeline, OneLineHoldsWhereNothingJumps) {
  Machine machine;
  const Machine begin = machine;
  TickTimeline timeline(machine.now());
  NoteFor(10 * kSecondNs, machine, timeline);
  EXPECT_EQ(timeline.jump_ns(), 0u);
  EXPECT_NEAR(timeline.ns_per_tick(), 1.0 / 3, 1e-12);
  const TickScale scale = timeline.Scale(begin.ns);
  EXPECT_TRUE(scale.bends.empty());
  EXPECT_NEAR(static_cast<double>(scale.Ps(machine.ticks)), 10e12, 1e3);
  EXPECT_NEAR(static_cast<double>(scale.Ps(begin.ticks - 3'000'000'000)), -1e12, 1e3);
}

// Regression: a jump of the counter stretched or squeezed all events of the recording.
TEST(TickTimeline, AJumpAheadMisplacesOnlyEventsAroundIt) {
  Machine machine;
  const Machine begin = machine;
  TickTimeline timeline(machine.now());
  NoteFor(4 * kSecondNs, machine, timeline);
  const Machine before = machine;
  machine.ticks += 3 * 5ull * kSecondNs;  // Five seconds of ticks.
  NoteFor(6 * kSecondNs, machine, timeline);
  EXPECT_NEAR(static_cast<double>(timeline.jump_ns()), 5e9, 1e6);
  EXPECT_NEAR(timeline.ns_per_tick(), 1.0 / 3, 1e-6);
  const TickScale scale = timeline.Scale(begin.ns);
  EXPECT_NEAR(static_cast<double>(scale.Ps(begin.ticks + 3'000'000'000)), 1e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(before.ticks)), 4e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(machine.ticks)), 10e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(machine.ticks - 3'000'000'000)), 9e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(begin.ticks - 3'000'000'000)), -1e12, 1e6);
}

TEST(TickTimeline, AJumpBackIsToldAndLeavesEarlierEventsWhereTheyWere) {
  Machine machine;
  const Machine begin = machine;
  TickTimeline timeline(machine.now());
  NoteFor(4 * kSecondNs, machine, timeline);
  machine.ticks -= 3 * 2ull * kSecondNs;
  NoteFor(6 * kSecondNs, machine, timeline);
  EXPECT_NEAR(static_cast<double>(timeline.jump_ns()), 2e9, 1e6);
  EXPECT_NEAR(static_cast<double>(timeline.Scale(begin.ns).Ps(begin.ticks + 9'000'000'000)), 3e12,
              1e6);
}

TEST(TickTimeline, AMachineThatWasSuspendedIsAJumpOfTheOtherClock) {
  Machine machine;
  const Machine begin = machine;
  TickTimeline timeline(machine.now());
  NoteFor(4 * kSecondNs, machine, timeline);
  machine.ns += 30 * kSecondNs;  // The counter stood still.
  NoteFor(2 * kSecondNs, machine, timeline);
  EXPECT_NEAR(static_cast<double>(timeline.jump_ns()), 30e9, 1e6);
  EXPECT_NEAR(timeline.ns_per_tick(), 1.0 / 3, 1e-6);
  const TickScale scale = timeline.Scale(begin.ns);
  EXPECT_NEAR(static_cast<double>(scale.Ps(begin.ticks + 6'000'000'000)), 2e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(machine.ticks)), 36e12, 1e6);
}

TEST(TickTimeline, ASlewIsFollowedAndJumpsAreBounded) {
  Machine machine;
  const Machine begin = machine;
  TickTimeline timeline(machine.now());
  NoteFor(2 * kSecondNs, machine, timeline);
  machine.rate = 3 / 1.08;  // chrony may slew CLOCK_MONOTONIC by 8 %.
  NoteFor(2 * kSecondNs, machine, timeline);
  const TickScale scale = timeline.Scale(begin.ns);
  EXPECT_NEAR(static_cast<double>(scale.Ps(begin.ticks + 3'000'000'000)), 1e12, 1e6);
  EXPECT_NEAR(static_cast<double>(scale.Ps(machine.ticks)), 4e12, 1e6);
  for (int i = 0; i < 10'000; ++i) {
    machine.ticks += 1'000'000'000;
    NoteFor(20'000'000, machine, timeline);
  }
  EXPECT_LE(timeline.Scale(begin.ns).bends.size(), 300u);
  EXPECT_GT(timeline.jump_ns(), 0u);
}

#if defined(__x86_64__)
TEST(KernelUsesCycles, OnlyTheKernelsOwnChoiceCounts) {
  char path[] = "/tmp/strobe-clocksource-XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  close(file);
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return wire::KernelUsesCycles(path);
  };
  EXPECT_TRUE(with("tsc\n"));
  EXPECT_FALSE(with("hpet\n"));
  EXPECT_FALSE(with("kvm-clock\n"));
  EXPECT_FALSE(with("tsc-early\n"));
  EXPECT_FALSE(with("hyperv_clocksource_tsc_page\n"));
  EXPECT_TRUE(with("")) << "nothing is known";
  unlink(path);
  EXPECT_TRUE(wire::KernelUsesCycles(path));
}
#endif

}  // namespace
}  // namespace strobe::source
