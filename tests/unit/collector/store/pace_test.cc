#include "collector/store/pace.h"

#include <gmock/gmock.h>

#include <array>

namespace strobe::storage {
namespace {

using namespace std::chrono_literals;

constexpr MonoTime kNever = MonoTime::max();

TEST(Pace, WhatIsAskedForTogetherGoesOutOneAfterTheOther) {
  Pace pace(1'000'000);
  const MonoTime now{10s};
  EXPECT_EQ(pace.Claim(500'000, now, kNever), 500ms);
  EXPECT_EQ(pace.Claim(500'000, now, kNever), 1s);
  EXPECT_EQ(pace.Claim(1'000'000, now + 500ms, kNever), 1500ms);
}

TEST(Pace, WhatWouldComeTooLateClaimsNothing) {
  Pace pace(1'000'000);
  const MonoTime now{10s};
  EXPECT_EQ(pace.Claim(2'000'000, now, now + 1s), std::nullopt);
  EXPECT_EQ(pace.Claim(1'000'000, now, now + 1s), 1s);
  const SystemClock clock;
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      pace.WaitFor(100'000'000, clock, {.deadline = clock.MonoNow() + 1s})));
}

TEST(Pace, APauseIsNotSavedUp) {
  Pace pace(1'000'000);
  pace.Claim(1, MonoTime{10s}, kNever);
  EXPECT_EQ(pace.Claim(2'000'000, MonoTime{100s}, kNever), 2s);
}

TEST(PacedBytes, HandsOverTheBytesUnlessCancelled) {
  const std::string_view piece = "0123456789";
  const MemoryBytes bytes(std::span(&piece, 1));
  Pace pace(1'000);
  const SystemClock clock;
  Cancellation cancel;
  const PacedBytes paced(bytes, pace, clock, {.cancellation = &cancel});
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
