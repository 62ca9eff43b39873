#include "viewer/answers/activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

TEST(Activity, PoolsOfThreadsHaveBandsOfTheirOwn) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "python", 0);
  host.AddEvent(host.EventId("work"), 0, 1000);
  for (const int thread : {2, 3}) {
    host.BeginLine(thread, StrCat("pool/", thread), 0);
    host.AddEvent(host.EventId("work"), 0, 500);
  }
  const LoadedRun run = MadeRun({host.Encode(), host.Encode()});
  ASSERT_EQ(run.rows.size(), 6u);
  const Activity activity = ActivityOf(run, 64, 8);
  ASSERT_EQ(activity.bands.size(), 4u) << "a plane's other threads, and its pool, of two workers";
  using Workers = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(activity.workers, (Workers{{0, 0}, {0, 0}, {1, 1}, {1, 1}}));
  EXPECT_EQ(ActivityOf(run, 64, 1).workers, (Workers{{0, 1}}));
  const std::size_t late = static_cast<std::size_t>((750 - activity.begin_ps) / activity.slot_ps);
  EXPECT_GT(activity.bands[0][late], 0u);
  EXPECT_EQ(activity.bands[1][late], 0u) << "only the pool's threads are idle";
}

// Regression: what a worker with another clock did was shown up to a slot late, and its end was
// not.
TEST(Activity, IsThatOfTheEventsOnEachWorkersClock) {
  constexpr std::int64_t kZeroNs = 1'790'000'000'000'000'000;
  std::mt19937_64 random(7);
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> events;
  std::vector<std::string> traces;
  for (const std::int64_t late_ns : {0, 1, 777, 12'345, 99'999}) {
    xplane::PlaneBuilder host(xplane::kHostPlane);
    host.BeginLine(1, "main", 0);
    std::int64_t at = 0;
    auto& of_worker = events.emplace_back();
    while (at < 1'000'000'000) {
      const auto length = static_cast<std::int64_t>(random() % 20'000'000) + 1;
      host.AddEvent(host.EventId("work"), at, length);
      of_worker.emplace_back(at + late_ns * 1000, at + late_ns * 1000 + length);
      at += length + static_cast<std::int64_t>(random() % 30'000'000);
    }
    xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
    environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(kZeroNs + late_ns));
    traces.push_back(host.Encode() + environment.Encode());
  }
  const LoadedRun run = MadeRun(traces);
  for (const std::uint32_t slots : {16u, 100u, 512u, 4096u}) {
    const Activity activity = ActivityOf(run, slots, 8);
    ASSERT_EQ(activity.bands.size(), events.size());
    for (std::size_t worker = 0; worker < events.size(); ++worker) {
      for (std::size_t slot = 0; slot < activity.bands[worker].size(); ++slot) {
        const std::int64_t begin =
            activity.begin_ps + activity.slot_ps * static_cast<std::int64_t>(slot);
        const std::int64_t end = begin + activity.slot_ps;
        // What is shorter than a slot counts in the slot in which it begins.
        bool some = false, whole = false, around = false;
        for (const auto& [from, to] : events[worker]) {
          const bool is_long = to - from >= activity.slot_ps;
          some |= (from >= begin && from < end) || (is_long && from < end && to > begin);
          whole |= from <= begin && to >= end;
          around |= from < end + activity.slot_ps && to > begin - activity.slot_ps;
        }
        const std::uint32_t told = activity.bands[worker][slot];
        if (some) {
          EXPECT_GT(told, 0u) << "slot " << slot << " of " << slots;
        }
        if (!around) {
          EXPECT_EQ(told, 0u) << "slot " << slot << " of " << slots;
        }
        if (whole) {
          EXPECT_GE(told, 254u) << "slot " << slot << " of " << slots;
        }
      }
    }
  }
}

// No index says so that can be opened.
TEST(Activity, ARunThatEndsBeforeItBeginsHasOneSlot) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "python", 0);
  host.AddEvent(host.EventId("work"), 0, 1000);
  LoadedRun run = MadeRun({host.Encode()});
  run.end_ps = run.begin_ps - 1'000'000;
  const Activity activity = ActivityOf(run, 64, 8);
  ASSERT_EQ(activity.bands.size(), 1u);
  EXPECT_EQ(activity.bands[0].size(), 1u);
}

}  // namespace
}  // namespace strobe::viewer
