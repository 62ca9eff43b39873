#include "operator/workers/clock_probe.h"

#include <gtest/gtest.h>

#include <random>

namespace strobe {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{1000s};

RoundTrip Trip(Nanos offset, Nanos there, Nanos back, Nanos work = 2us) {
  RoundTrip trip;
  trip.sent = kNow;
  trip.received = kNow + there + offset;
  trip.answered = trip.received + work;
  trip.back = kNow + there + work + back;
  return trip;
}

TEST(EstimateClock, TakesTheSmallestRoundTrip) {
  const std::vector<RoundTrip> trips = {Trip(5ms, 3ms, 100us), Trip(5ms, 50us, 50us),
                                        Trip(5ms, 80us, 9ms)};
  const auto estimate = EstimateClock(trips);
  EXPECT_EQ(estimate->offset, 5ms);
  EXPECT_EQ(estimate->error, 50us + 1ns);
}

TEST(EstimateClock, TheOffsetIsAlwaysWithinTheError) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const Nanos offset{static_cast<std::int64_t>(random() % 40'000'000'000) - 20'000'000'000};
    const std::vector<RoundTrip> trips = {
        Trip(offset, Nanos{random() % 1'000'000}, Nanos{random() % 1'000'000}),
        Trip(offset, Nanos{random() % 1'000'000}, Nanos{random() % 1'000'000})};
    const auto estimate = EstimateClock(trips);
    EXPECT_LE(std::chrono::abs(estimate->offset - offset), estimate->error);
  }
}

TEST(EstimateClock, NothingForNoTripsOrSteppedClocks) {
  EXPECT_FALSE(EstimateClock({}).has_value());
  RoundTrip stepped = Trip(0s, 1ms, 1ms);
  stepped.back = stepped.sent - 1s;
  EXPECT_FALSE(EstimateClock(std::vector<RoundTrip>{stepped}).has_value());
}

}  // namespace
}  // namespace strobe
