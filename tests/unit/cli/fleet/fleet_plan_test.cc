#include "cli/fleet/fleet_plan.h"

#include <gmock/gmock.h>

#include <set>

#include "common/base/strings.h"

namespace strobe::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kTrace[] = "plugins/profile/r/w.xplane.pb";
constexpr std::size_t kName = sizeof("plugins/profile/r/") - 1;

FleetRun Row() {
  return {.run = "r=1/\x1b",
          .identity = "abc",
          .workers = 2,
          .events = 1200,
          .trace_bytes = 48'200'000,
          .table_bytes = 5'000'000,
          .seconds = 3.41,
          .headline = "rank 1 holds up 1 other by 2ms a step (10%): input"};
}

TEST(FleetShare, EachRunHasOneOwnerAndStaysWithIt) {
  constexpr std::uint32_t kShares = 7;
  std::vector<int> sizes(kShares);
  for (int i = 0; i < 7000; ++i) {
    const std::string run = StrCat("2026_11_24_", i);
    int owners = 0;
    for (std::uint32_t index = 0; index < kShares; ++index) {
      if (!IsOfShare({.index = index, .of = kShares}, run)) continue;
      ++owners;
      ++sizes[index];
    }
    EXPECT_EQ(owners, 1) << run;
    EXPECT_TRUE(IsOfShare({}, run));
  }
  for (const int size : sizes) EXPECT_NEAR(size, 1000, 150);
  // It does not depend on the machine or the version: moved runs would be done twice.
  EXPECT_TRUE(IsOfShare({.index = 2, .of = 3}, "2026_11_21_08_30_00_bench"));
}

TEST(FleetIdentity, ChangesWithTracesAndWithWhatIsMadeOfThem) {
  const std::vector<storage::StoredObject> objects = {
      {.key = kTrace, .bytes = 7, .version = "a", .name_begin = kName},
      {.key = "plugins/profile/r/x.trace.json.gz",
       .bytes = 9,
       .version = "b",
       .name_begin = kName}};
  const std::string identity = FleetIdentity(objects, true);
  EXPECT_EQ(FleetIdentity({objects[1], objects[0]}, true), identity) << "the order of a listing";
  std::vector<storage::StoredObject> more = objects;
  more.push_back(
      {.key = "plugins/profile/r/report.json", .bytes = 3, .version = "c", .name_begin = kName});
  EXPECT_EQ(FleetIdentity(more, true), identity) << "no trace";
  std::set<std::string> different = {identity, FleetIdentity(objects, false),
                                     FleetIdentity({objects[0]}, true)};
  more = objects;
  more[0].bytes = 8;
  different.insert(FleetIdentity(more, true));
  more = objects;
  more[0].version = "d";
  different.insert(FleetIdentity(more, true));
  more = objects;
  more[0].key = "plugins/profile/r/v.xplane.pb";
  different.insert(FleetIdentity(more, true));
  EXPECT_EQ(different.size(), 6u);
}

TEST(FleetRunJson, IsOneLineAndReadAgain) {
  for (const FleetState state : {FleetState::kDone, FleetState::kEmpty, FleetState::kFailed}) {
    FleetRun row = Row();
    row.state = state;
    row.problem = "w:\nmalformed";
    const std::string text = FleetRunJson(row);
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    const absl::StatusOr<FleetRun> read = ReadFleetRun(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(FleetRunJson(*read), text);
    EXPECT_EQ(read->run, row.run);
    EXPECT_EQ(read->state, state);
    EXPECT_EQ(read->identity, "abc");
  }
}

TEST(ReadFleetRun, WhatIsNoRowIsNotDone) {
  const std::string good = FleetRunJson(Row());
  ASSERT_TRUE(ReadFleetRun(good).ok());
  for (std::size_t size = 0; size + 1 < good.size(); ++size)
    EXPECT_FALSE(ReadFleetRun(good.substr(0, size)).ok()) << size;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_FALSE(ReadFleetRun(with("\"version\":1", "\"version\":2")).ok());
  EXPECT_FALSE(ReadFleetRun(with("\"done\"", "\"half\"")).ok());
  EXPECT_FALSE(ReadFleetRun(with("\"identity\":\"abc\"", "\"identity\":3")).ok());
  EXPECT_FALSE(ReadFleetRun(with("\"events\":1200", "\"events\":\"many\"")).ok());
  EXPECT_FALSE(ReadFleetRun("[]").ok());
}

TEST(FleetKeys, AreThoseOfPartitions) {
  EXPECT_EQ(FleetRowKey("2026 a/b"), "runs/run=2026%20a%2Fb/run.json");
  EXPECT_EQ(FleetReportKey("r"), "reports/run=r/report.json");
  const std::vector<std::string> prefixes = FleetPrefixes("r");
  EXPECT_THAT(prefixes, Contains("events/run=r/"));
  EXPECT_THAT(prefixes, Contains("reports/run=r/"));
  EXPECT_THAT(prefixes, Not(Contains("runs/run=r/"))) << "the row is deleted first, by its key";
}

TEST(FleetSummary, NamesWhatFailed) {
  FleetRun failed = Row();
  failed.state = FleetState::kFailed;
  failed.problem = "w: damaged or cut";
  FleetRun empty = Row();
  empty.state = FleetState::kEmpty;
  empty.trace_bytes = 0;
  const std::string text = FleetSummary({Row(), failed, empty}, 4);
  EXPECT_THAT(text, testing::StartsWith("written: 1 (48.2 MB of traces), done before: 4, "
                                        "without traces: 1, failed: 1\n"));
  EXPECT_THAT(text, HasSubstr("w: damaged or cut"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(FleetSummary({Row()}, 0), Not(HasSubstr("WHY")));
  EXPECT_THAT(FleetRunText(Row()), HasSubstr("2 workers, 1200 events, "));
  EXPECT_THAT(FleetRunText(Row()), HasSubstr("3.4 s: rank 1 holds up"));
}

}  // namespace
}  // namespace strobe::cli
