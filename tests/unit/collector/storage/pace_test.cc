#include "collector/storage/pace.h"

#include <gmock/gmock.h>

#include <array>

namespace strobe::storage {
namespace {

using namespace std::chrono_literals;

TEST(Pace, WhatIsAskedForTogetherGoesOutOneAfterTheOther) {
  Pace pace(1'000'000);
  const MonoTime now{10s};
  EXPECT_EQ(pace.Claim(500'000, now), 500ms);
  EXPECT_EQ(pace.Claim(500'000, now), 1s);
  EXPECT_EQ(pace.Claim(1'000'000, now + 500ms), 1500ms);
}

TEST(Pace, APauseIsNotSavedUp) {
  Pace pace(1'000'000);
  pace.Claim(1, MonoTime{10s});
  EXPECT_EQ(pace.Claim(2'000'000, MonoTime{100s}), 2s);
}

TEST(PacedBytes, HandsOverTheBytesUnlessCancelled) {
  const std::string_view piece = "0123456789";
  const MemoryBytes bytes(std::span(&piece, 1));
  Pace pace(1'000);
  const SystemClock clock;
  Cancellation cancel;
  const PacedBytes paced(bytes, pace, clock, &cancel);
  EXPECT_EQ(paced.size(), 10u);
  std::array<char, 4> some{};
  const MonoTime began = clock.MonoNow();
  ASSERT_TRUE(paced.Read(2, some).ok());
  EXPECT_EQ(std::string_view(some.data(), 4), "2345");
  EXPECT_GE(clock.MonoNow() - began, 4ms) << "4 bytes at 1000 per second";
  cancel.Cancel();
  EXPECT_TRUE(absl::IsCancelled(paced.Read(0, some)));
}

}  // namespace
}  // namespace strobe::storage
