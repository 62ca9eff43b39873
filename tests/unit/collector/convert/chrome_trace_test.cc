#include "collector/convert/chrome_trace.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "collector/convert/json_text.h"
#include "collector/convert/perfetto_trace.h"
#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"

namespace strobe::convert {
namespace {

using Json = nlohmann::json;

std::string Sample() {
  xplane::PlaneBuilder plane("/host:CPU");
  plane.BeginLine(1, "main", 1);
  plane.AddEvent(plane.EventId("outer"), 0, 1'234'567);
  plane.AddEventStat(plane.StatId("big"), std::uint64_t{1} << 60);
  plane.AddEventStat(plane.StatId("small"), std::int64_t{-7});
  plane.AddEventStat(plane.StatId("nan"), std::nan(""));
  plane.AddEventStat(plane.StatId("text"), std::string_view("a \"quoted\" <b>\n\xff"));
  plane.AddEvent(plane.EventId("overlapping"), 1'000'000, 1'000'000);
  plane.AddEvent(plane.EventId("send"), 3'000'000, 10);
  plane.AddEventStat(plane.StatId("_pt"), std::int64_t{15});
  plane.AddEventStat(plane.StatId("_p"), std::int64_t{42});
  plane.AddEvent(plane.EventId("take"), 4'000'000, 10);
  plane.AddEventStat(plane.StatId("_ct"), std::int64_t{15});
  plane.AddEventStat(plane.StatId("_c"), std::int64_t{42});
  plane.BeginLine(2, xplane::kCounterLine, 1);
  plane.AddEvent(plane.EventId("memory"), 5'000'000, 0);
  plane.AddEventStat(plane.StatId("bytes"), std::uint64_t{77});
  return plane.Encode();
}

Json Convert(const std::vector<WorkerTrace>& traces) {
  std::string text;
  EXPECT_TRUE(WriteChromeTrace(traces, [&](std::string_view piece) {
                text += piece;
                return absl::OkStatus();
              }).ok());
  return Json::parse(text);
}

TEST(ChromeTrace, KeepsEveryDigitAndEveryEvent) {
  const std::string bytes = Sample();
  const Json events = Convert({{"w", *xplane::Space::Read(bytes), 0}})["traceEvents"];
  std::map<std::string, Json> by_name;
  std::vector<Json> flows, threads;
  for (const Json& event : events) {
    if (event["ph"] == "X" || event["ph"] == "C") by_name[event["name"]] = event;
    if (event["ph"] == "s" || event["ph"] == "f") flows.push_back(event);
    if (event["name"] == "thread_name") threads.push_back(event);
  }
  const Json& outer = by_name["outer"];
  EXPECT_EQ(outer["ts"].dump(), "0.001");
  EXPECT_EQ(outer["dur"].dump(), "1.234567");
  EXPECT_EQ(outer["args"]["big"], "1152921504606846976") << "no double holds it";
  EXPECT_EQ(outer["args"]["small"], -7);
  EXPECT_EQ(outer["args"]["nan"], "NaN");
  EXPECT_EQ(outer["args"]["text"], "a \"quoted\" <b>\n\xef\xbf\xbd");
  EXPECT_NE(by_name["overlapping"]["tid"], outer["tid"]) << "what does not nest has its own lane";
  EXPECT_EQ(threads.size(), 2u) << "two lanes of main; counters belong to the process";
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows[0]["id"], flows[1]["id"]);
  EXPECT_EQ(by_name["memory"]["args"]["bytes"], 77);
}

TEST(ChromeTrace, WorkersStandSideBySideOnOneClock) {
  const std::string bytes = Sample();
  const Json events = Convert({{"a", *xplane::Space::Read(bytes), 0},
                               {"b", *xplane::Space::Read(bytes), 5000}})["traceEvents"];
  std::vector<std::string> processes;
  std::vector<double> outers;
  for (const Json& event : events) {
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (event["name"] == "outer") outers.push_back(event["ts"]);
  }
  EXPECT_THAT(processes, testing::ElementsAre("a /host:CPU", "b /host:CPU"));
  EXPECT_THAT(outers, testing::ElementsAre(0.001, 5.001));
}

TEST(ChromeTrace, EndsWithTheSinksError) {
  const std::string bytes = Sample();
  const std::vector<WorkerTrace> traces = {{"w", *xplane::Space::Read(bytes), 0}};
  const auto full = [](std::string_view) { return absl::ResourceExhaustedError("full"); };
  EXPECT_EQ(WriteChromeTrace(traces, full).message(), "full");
  EXPECT_EQ(WritePerfettoTrace(traces, full).message(), "full");
}

TEST(JsonText, MakesAnythingValid) {
  const auto json = [](std::string_view text) {
    std::string out;
    AppendJsonText(text, out);
    return Json::parse(out).get<std::string>();
  };
  EXPECT_EQ(json("grüße 世界 \xf0\x9f\x98\x80"), "grüße 世界 \xf0\x9f\x98\x80");
  EXPECT_EQ(json("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong";
  EXPECT_EQ(json("\xed\xa0\x80x"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx") << "a surrogate";
  EXPECT_EQ(json("\xe4\xb8"), "\xef\xbf\xbd\xef\xbf\xbd") << "cut";
  EXPECT_EQ(json(std::string_view("\0\x1f", 2)), std::string("\0\x1f", 2));
}

}  // namespace
}  // namespace strobe::convert
