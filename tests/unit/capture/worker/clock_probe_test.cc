#include "capture/worker/clock_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace strobe::capture {
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

// A network whose round trips take 216 us in the median and 1.3 ms at the 99th percentile, as
// Pingmesh reported of servers in one pod of a data centre (Guo et al., SIGCOMM 2015), with the two
// directions independent of each other, and 200 ms more for a packet that is lost and sent again.
class Network {
 public:
  Nanos Delay() {
    const Nanos resent = std::bernoulli_distribution(1e-4)(random_) ? 200ms : 0ms;
    return Nanos{static_cast<std::int64_t>(delay_(random_))} + resent;
  }
  double Between(double least, double most) {
    return std::uniform_real_distribution(least, most)(random_);
  }

 private:
  std::mt19937_64 random_{7};
  std::lognormal_distribution<double> delay_{std::log(108e3), 0.76};
};

struct DriftingClock {
  Nanos offset{};  // At kNow.
  double drift = 0;

  Nanos At(WallTime time) const {
    return offset +
           Nanos{static_cast<std::int64_t>(static_cast<double>((time - kNow).count()) * drift)};
  }
  // Eight round trips, one after the other.
  ClockOffset Measure(WallTime from, Network& network) const {
    std::vector<RoundTrip> trips;
    for (WallTime now = from; trips.size() < 8; now = trips.back().back) {
      RoundTrip trip{.sent = now};
      const WallTime there = now + network.Delay(), answered = there + 20us;
      trip.received = there + At(there);
      trip.answered = answered + At(answered);
      trip.back = answered + network.Delay();
      trips.push_back(trip);
    }
    const ClockEstimate estimate = EstimateClock(trips).value();
    return {.at = trips.back().back, .offset = estimate.offset, .error = estimate.error};
  }
};

TEST(EstimateClock, OffsetsInADataCentreAreWithinTheirErrorsAtTheStart) {
  Network network;
  std::vector<Nanos> missed;
  constexpr int kCaptures = 32, kWorkers = 2000;  // A million round trips.
  for (int i = 0; i < kCaptures * kWorkers; ++i) {
    // Crystals of up to 50 ppm on both sides, a start up to a minute ahead, and 2 s of recording.
    const DriftingClock clock{Nanos{static_cast<std::int64_t>(network.Between(-5e9, 5e9))},
                              network.Between(-1e-4, 1e-4)};
    const WallTime start = kNow + Nanos{static_cast<std::int64_t>(network.Between(1e9, 60e9))};
    const ClockOffset before = clock.Measure(kNow, network);
    // One worker in ten cannot be reached any more.
    const auto after =
        i % 10 == 0 ? std::nullopt : std::optional(clock.Measure(start + 2s, network));
    const ClockOffset then = OffsetAt(start, before, after);
    const Nanos off = std::chrono::abs(then.offset - clock.At(start));
    ASSERT_LE(off, *then.error) << i;
    if (after) missed.push_back(off);
  }
  std::nth_element(missed.begin(), missed.begin() + missed.size() / 2, missed.end());
  EXPECT_LE(missed[missed.size() / 2], 20us);
}

}  // namespace
}  // namespace strobe::capture
