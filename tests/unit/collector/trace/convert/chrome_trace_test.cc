#include "collector/trace/convert/chrome_trace.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "collector/trace/convert/perfetto_trace.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/collector/colliding_names.h"
#include "tests/unit/collector/kind_plane.h"

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

std::string ChromeText(const std::vector<WorkerTrace>& traces) {
  std::string text;
  EXPECT_TRUE(WriteChromeTrace(traces, [&](std::string_view piece) {
                text += piece;
                return absl::OkStatus();
              }).ok());
  return text;
}

Json Convert(const std::vector<WorkerTrace>& traces) { return Json::parse(ChromeText(traces)); }

TEST(ChromeTrace, IdsThatAreChosenToCollideAreWritten) {
  const std::string bytes = CollidingNames();
  const std::string text = ChromeText({{"w", *xplane::Space::Read(bytes), 0}});
  EXPECT_THAT(text, testing::HasSubstr(R"("name":"170000","ts":170,"dur":0.0005,)"
                                       R"("args":{"170000":170000}})"));
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

// The format has no place for what all events of a name share.
TEST(ChromeTrace, EveryEventTellsWhatItsKindTells) {
  const std::string bytes = PlaneWithKinds();
  std::vector<Json> spans;
  const Json events = Convert({{"w", *xplane::Space::Read(bytes), 0}})["traceEvents"];
  for (const Json& event : events) {
    if (event["ph"] == "X") spans.push_back(event);
  }
  ASSERT_EQ(spans.size(), 4u);
  for (const std::size_t first : {0u, 2u}) {
    EXPECT_EQ(spans[first]["name"], "fusion.1");
    EXPECT_EQ(spans[first]["args"], Json({{"long_name", "%fusion.1 = f32[8] fusion()"},
                                          {"hlo_category", "loop fusion"},
                                          {"flops", "1152921504606846976"},
                                          {"bytes_accessed", 5}}));
  }
  EXPECT_EQ(spans[1]["args"]["hlo_category"], "all-reduce fusion");
  EXPECT_EQ(spans[1]["args"]["bytes_accessed"], 9);
  EXPECT_EQ(spans[3]["args"]["hlo_category"], "all-reduce fusion");
  EXPECT_EQ(spans[3]["args"]["bytes_accessed"], 7) << "the event's own";
  EXPECT_EQ(spans[3]["args"].size(), 3u);
}

// Two ends at one place would be two events to a reader.
TEST(ChromeTrace, TheMiddleOfAFlowIsOneEnd) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  for (const std::int64_t direction : {2, 3, 1}) {
    host.AddEvent(host.EventId("event"), direction * 1'000'000, 1000);
    host.AddEventStat(host.StatId("flow"), std::int64_t{5 << 2 | direction});
  }
  const std::string bytes = host.Encode();
  std::vector<std::string> ends;
  const Json events = Convert({{"w", *xplane::Space::Read(bytes), 0}})["traceEvents"];
  for (const Json& event : events) {
    if (event["name"] == "flow")
      ends.push_back(StrCat(event["ph"].get<std::string>(), event["ts"].get<int>()));
  }
  EXPECT_THAT(ends, testing::ElementsAre("f1", "s2", "t3"));
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

TEST(ChromeTrace, ArrowsStayWithinTheirWorker) {
  xplane::PlaneBuilder host("/host:CPU"), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("cudaLaunchKernel"), 0, 1000);
  host.AddEventStat(host.StatId("correlation_id"), std::int64_t{7});
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  gpu.AddEvent(gpu.EventId("kernel"), 5000, 1000);
  gpu.AddEventStat(gpu.StatId("correlation_id"), std::int64_t{7});
  const std::string bytes = host.Encode() + gpu.Encode();
  const Json events = Convert({{"a", *xplane::Space::Read(bytes), 0},
                               {"b", *xplane::Space::Read(bytes), 0}})["traceEvents"];
  std::vector<Json> ends;
  for (const Json& event : events) {
    if (event["name"] == "flow") ends.push_back(event);
  }
  ASSERT_EQ(ends.size(), 4u);
  for (std::size_t i = 0; i < 4; i += 2) {
    EXPECT_EQ(ends[i]["ph"], "s");
    EXPECT_EQ(ends[i + 1]["ph"], "f");
    EXPECT_EQ(ends[i]["id"], ends[i + 1]["id"]);
  }
  EXPECT_NE(ends[0]["id"], ends[2]["id"]);
}

TEST(ChromeTrace, TheValueOfACounterIsItsFirstNumber) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(1, xplane::kCounterLine, 0);
  gpu.AddEvent(gpu.EventId("Total Allocated"), 0, 0);
  gpu.AddEventStat(gpu.StatId("tid"), std::string_view("7"));
  gpu.AddEventStat(gpu.StatId("Total Allocated"), std::int64_t{100});
  gpu.AddEventStat(gpu.StatId("Bytes"), std::int64_t{-8});
  gpu.AddEvent(gpu.EventId("no value"), 0, 0);
  const std::string bytes = gpu.Encode();
  const Json events = Convert({{"w", *xplane::Space::Read(bytes), 0}})["traceEvents"];
  std::vector<Json> counters;
  for (const Json& event : events) {
    if (event["ph"] == "C") counters.push_back(event);
  }
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]["name"], "Total Allocated");
  EXPECT_EQ(counters[0]["args"].dump(), R"({"Total Allocated":100})");
}

TEST(ChromeTrace, TracesMayBeginMonthsApart) {
  constexpr std::int64_t kMonths = 151ll * 24 * 3'600'000'000'000;
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("event"), 1'500, 2'000);
  const std::string bytes = host.Encode();
  const auto begins = [&](std::int64_t shift_ns, std::string_view at) {
    const std::string text = ChromeText({{"w", *xplane::Space::Read(bytes), shift_ns}});
    EXPECT_THAT(text, testing::HasSubstr(StrCat("\"ts\":", at, ",\"dur\":0.002}")));
  };
  begins(0, "0.0015");
  begins(kMonths, "13046400000000.0015");
  begins(-1, "0.0005");
  begins(-2, "-0.0005");
  begins(-1'000'002, "-1000.0005");
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
