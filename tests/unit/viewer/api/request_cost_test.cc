#include "viewer/api/request_cost.h"

#include <gtest/gtest.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

// A worker with rows of `events` events, each of which has two others inside.
std::string Rows(int rows, int events) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  for (int row = 0; row < rows; ++row) {
    host.BeginLine(row + 1, StrCat("thread ", row), 0);
    for (int i = 0; i < events; ++i) {
      host.AddEvent(host.EventId("outer"), i * 1000, 900);
      host.AddEvent(host.EventId("inner"), i * 1000 + 100, 500);
      host.AddEvent(host.EventId("innermost"), i * 1000 + 200, 100);
    }
  }
  return host.Encode();
}

bool IsShort(const char* path, const std::string& query, const LoadedRun* run) {
  return CostOf(path, http::Query(query), run) <= kShortCost;
}

TEST(CostOf, TilesOfAPageAreShortAndManyMoreAreNot) {
  const LoadedRun run = MadeRun({Rows(300, 2000)});
  for (const LoadedRun* known : {static_cast<const LoadedRun*>(nullptr), &run}) {
    EXPECT_TRUE(IsShort("/api/tiles", "rows=0-255&slots=512", known));
    EXPECT_TRUE(IsShort("/api/tiles", "rows=0-31&slots=4096", known));
  }
  EXPECT_FALSE(IsShort("/api/tiles", "rows=0-1023&slots=4096", &run));
  EXPECT_FALSE(IsShort("/api/tiles", "rows=0-1023&slots=4096", nullptr));
  EXPECT_FALSE(IsShort("/api/tiles", "rows=0-1023&slots=512", nullptr))
      << "a run that is not known may have any number of tracks";
  const LoadedRun small = MadeRun({Rows(1, 10)});
  EXPECT_TRUE(IsShort("/api/tiles", "rows=0-1023&slots=4096", &small));
}

TEST(CostOf, IsThatOfTheEventsThatMayBeRead) {
  const LoadedRun small = MadeRun({Rows(4, 100)}), large = MadeRun({Rows(100, 10'000)});
  struct Case {
    const char *path, *query;
  };
  for (const auto& [path, query] : {Case{"/api/events", "rows=0-1023&limit=10000"},
                                    {"/api/find", "q=x&in=texts"},
                                    {"/api/activity", "slots=4096&bands=64"}}) {
    EXPECT_TRUE(IsShort(path, query, &small)) << path;
    EXPECT_EQ(IsShort(path, query, &large), path == std::string("/api/activity")) << path;
    EXPECT_FALSE(IsShort(path, query, nullptr)) << path << ": it may be any run";
  }
  EXPECT_TRUE(IsShort("/api/events", "rows=0-3&limit=100", &large));
  EXPECT_TRUE(IsShort("/api/kinds", "", &large));
  EXPECT_FALSE(IsShort("/api/kinds", "", nullptr));
  EXPECT_TRUE(IsShort("/api/find", "q=x", &large));
  EXPECT_FALSE(IsShort("/api/find", "q=x&order=duration", &large)) << "all events are looked at";
  EXPECT_FALSE(IsShort("/api/find", "q=x&slots=100", &large)) << "all events are looked at";
  EXPECT_TRUE(IsShort("/api/event", "row=0&track=0&ordinal=1", &large));
  EXPECT_TRUE(IsShort("/api/arrows", "rows=0-1023", &large)) << "there are none";
}

TEST(CostOf, WhatReadsWholeTracesIsNeverShort) {
  const LoadedRun small = MadeRun({Rows(1, 1)});
  EXPECT_FALSE(IsShort("/api/select", "tracks=0:0-1", &small));
  EXPECT_FALSE(IsShort("/api/steps", "", &small));
  EXPECT_FALSE(IsShort("/api/graph", "", &small));
  EXPECT_FALSE(IsShort("/api/find", "q=x&in=all", &small));
}

TEST(CostOf, QuestionsThatAreRefusedAreCheap) {
  const LoadedRun run = MadeRun({Rows(1, 1)});
  for (const LoadedRun* known : {static_cast<const LoadedRun*>(nullptr), &run}) {
    EXPECT_TRUE(IsShort("/api/tiles", "rows=0-4294967295&slots=4096", known));
    EXPECT_TRUE(IsShort("/api/tiles", "rows=0-1023&slots=-1", known));
    EXPECT_TRUE(IsShort("/api/tiles", "rows=0-1023&slots=99999999999999999999", known));
  }
  EXPECT_TRUE(IsShort("/api/event", "row=4000000000", &run));
}

}  // namespace
}  // namespace strobe::viewer
