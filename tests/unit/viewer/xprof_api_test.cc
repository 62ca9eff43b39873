#include "viewer/xprof_api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;

TEST(XprofData, NumbersKeepAllTheirDigits) {
  constexpr std::int64_t kEndPs = 123'456'789'012'345, kBytes = 17'179'869'185;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("work"), 0, kEndPs);
  host.BeginLine(2, xplane::kCounterLine, 0);
  host.AddEvent(host.EventId("memory"), 1'000'000, 0);
  host.AddEventStat(host.StatId("bytes"), kBytes);
  const LoadedRun run = MadeRun({host.Encode()});
  const absl::StatusOr<std::string> text = XprofData(run, Query("host=w0&resolution=0"));
  ASSERT_TRUE(text.ok()) << text.status();
  const json data = json::parse(*text);
  EXPECT_EQ(data["fullTimespan"][1].get<double>(), static_cast<double>(kEndPs) / 1e9);
  int counters = 0;
  for (const json& event : data["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters;
    EXPECT_EQ(event["entries"][0][1].get<double>(), static_cast<double>(kBytes));
  }
  EXPECT_EQ(counters, 1);
}

}  // namespace
}  // namespace strobe::viewer
