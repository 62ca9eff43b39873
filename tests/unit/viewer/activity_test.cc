#include "viewer/activity.h"

#include <gtest/gtest.h>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
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
  const std::size_t late = static_cast<std::size_t>((750 - activity.begin_ps) / activity.slot_ps);
  EXPECT_GT(activity.bands[0][late], 0u);
  EXPECT_EQ(activity.bands[1][late], 0u) << "only the pool's threads are idle";
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
