#include "viewer/api/xprof_api.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> XprofText(const LoadedRun& run, const http::Query& query,
                                      std::size_t max_bytes = kMaxXprofBytes) {
  std::string text;
  const absl::Status status = WriteXprofData(
      run, query,
      [&](std::string_view piece) {
        text += piece;
        return absl::OkStatus();
      },
      max_bytes);
  if (!status.ok()) return status;
  return text;
}

TEST(WriteXprofData, NumbersKeepAllTheirDigits) {
  constexpr std::int64_t kEndPs = 123'456'789'012'345, kBytes = 17'179'869'185;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("work"), 0, kEndPs);
  host.BeginLine(2, xplane::kCounterLine, 0);
  host.AddEvent(host.EventId("memory"), 1'000'000, 0);
  host.AddEventStat(host.StatId("bytes"), kBytes);
  const LoadedRun run = MadeRun({host.Encode()});
  const absl::StatusOr<std::string> text = XprofText(run, http::Query("host=w0&resolution=0"));
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

// Regression: a bin of 2^64 ps or more had a level of 2^32 - 1, by which times were shifted.
TEST(WriteXprofData, TheLeastResolutionsHaveOneBinOfAllEvents) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 1000; ++i)
    host.AddEvent(host.EventId("work"), i * 1000, i == 700 ? 900 : 500);
  host.BeginLine(2, xplane::kCounterLine, 0);
  host.AddEvent(host.EventId("memory"), 1000, 0);
  host.AddEventStat(host.StatId("bytes"), std::int64_t{1});
  const LoadedRun run = MadeRun({host.Encode()});
  for (const char* resolution : {"1e-9", "1e-14", "1e-300", "5e-324"}) {
    const absl::StatusOr<std::string> text =
        XprofText(run, http::Query(StrCat("host=w0&resolution=", resolution)));
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(json::parse(*text)["returnedEventsSize"], 1) << resolution;
  }
}

// Regression: the short events of a bin were told as a second one like the long event among them,
// and those that began in the last bin, which the run fills in part, were not told.
TEST(WriteXprofData, EveryBinIsToldAndNoEventTwice) {
  constexpr int kGroups = 100;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < kGroups; ++i) {
    host.AddEvent(host.EventId("short"), i * 10'000, 10);
    host.AddEvent(host.EventId("short"), i * 10'000 + 20, 10);
    host.AddEvent(host.EventId("long"), i * 10'000 + 40, 9'000);
  }
  host.AddEvent(host.EventId("last"), kGroups * 10'000 + 50'000, 0);
  const LoadedRun run = MadeRun({host.Encode()});
  // Bins of 4096 ps, so that no long event fits into one.
  const absl::StatusOr<std::string> text = XprofText(run, http::Query("host=w0&resolution=200"));
  ASSERT_TRUE(text.ok()) << text.status();
  const json data = json::parse(*text);
  std::set<std::string> uids;
  std::map<std::string, int> names;
  for (const json& event : data["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_TRUE(uids.insert(event["args"]["uid"]).second) << event;
    ++names[event["name"]];
  }
  EXPECT_EQ(names["long"], kGroups);
  EXPECT_EQ(names["last"], 1);
  EXPECT_EQ(data["returnedEventsSize"], uids.size());
}

TEST(WriteXprofData, AnAnswerThatIsFullCountsWhatItLeavesOut) {
  constexpr int kEvents = 1000, kValues = 10;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < kEvents; ++i) host.AddEvent(host.EventId("work"), i * 1000, 500);
  host.BeginLine(2, xplane::kCounterLine, 0);
  for (std::int64_t i = 0; i < kValues; ++i) {
    host.AddEvent(host.EventId("memory"), i * 1000, 0);
    host.AddEventStat(host.StatId("bytes"), i);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  for (const auto& [query, wanted] :
       {std::pair("resolution=0", kEvents + kValues), std::pair("search_prefix=work", kEvents)}) {
    constexpr std::size_t kRoom = 20'000;
    const absl::StatusOr<std::string> text = XprofText(run, http::Query(query), kRoom);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_LT(text->size(), kRoom + 1000) << query;
    const json data = json::parse(*text);
    const int returned = data["returnedEventsSize"], left_out = data["leftOutEventsSize"];
    EXPECT_GT(returned, 0) << query;
    EXPECT_EQ(returned + left_out, wanted) << query;
    EXPECT_EQ(data["filteredByVisibility"], true) << "so that the page asks again for a part";
  }
}

TEST(WriteXprofData, EndsSoonWhenNobodyWaitsAnyMore) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  for (int row = 0; row < 8; ++row) {
    host.BeginLine(row + 1, StrCat("thread ", row), 0);
    for (int i = 0; i < 10'000; ++i) host.AddEvent(host.EventId("work"), i * 1000, 500);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  int pieces = 0;
  const absl::Status status =
      WriteXprofData(run, http::Query("resolution=0"), [&](std::string_view piece) {
        EXPECT_LT(piece.size(), std::size_t{1} << 20) << "memory does not depend on the run";
        return ++pieces == 3 ? absl::CancelledError("gone") : absl::OkStatus();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(pieces, 3);
}

TEST(WriteXprofData, HitsOfOtherHostsDoNotHideThoseOfTheHostThatIsSearched) {
  constexpr int kMoreThanAreGiven = 10'001;
  xplane::PlaneBuilder busy(xplane::kHostPlane), quiet(xplane::kHostPlane);
  busy.BeginLine(1, "main", 0);
  for (int i = 0; i < kMoreThanAreGiven; ++i) busy.AddEvent(busy.EventId("work"), i * 1000, 500);
  quiet.BeginLine(1, "main", 0);
  quiet.AddEvent(quiet.EventId("work"), kMoreThanAreGiven * 1000, 500);
  const LoadedRun run = MadeRun({busy.Encode(), quiet.Encode()});
  const absl::StatusOr<std::string> text =
      XprofText(run, http::Query("host=w1&search_prefix=work"));
  ASSERT_TRUE(text.ok()) << text.status();
  const json data = json::parse(*text);
  EXPECT_EQ(data["returnedEventsSize"], 1);
  int spans = 0;
  for (const json& event : data["traceEvents"]) spans += event["ph"] == "X";
  EXPECT_EQ(spans, 1);
}

}  // namespace
}  // namespace strobe::viewer
