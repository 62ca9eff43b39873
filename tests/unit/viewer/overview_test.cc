#include "viewer/overview.h"

#include <gtest/gtest.h>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

TEST(Overview, PoolsOfThreadsHaveBandsOfTheirOwn) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "python", 0);
  host.AddEvent(host.EventId("work"), 0, 1000);
  for (const int thread : {2, 3}) {
    host.BeginLine(thread, StrCat("pool/", thread), 0);
    host.AddEvent(host.EventId("work"), 0, 500);
  }
  const LoadedRun run = MadeRun({host.Encode(), host.Encode()});
  ASSERT_EQ(run.rows.size(), 6u);
  const Overview overview = LookAtWhole(run, 64, 8);
  ASSERT_EQ(overview.bands.size(), 4u) << "a plane's other threads, and its pool, of two workers";
  const std::size_t late = static_cast<std::size_t>((750 - overview.begin_ps) / overview.slot_ps);
  EXPECT_GT(overview.bands[0][late], 0u);
  EXPECT_EQ(overview.bands[1][late], 0u) << "only the pool's threads are idle";
}

}  // namespace
}  // namespace strobe::viewer
