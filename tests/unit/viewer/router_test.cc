#include "viewer/router.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/varint.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "tests/fakes/simulated_time.h"
#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"
#include "viewer/answers/details.h"
#include "viewer/answers/selection.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// The capture's window: from 0.1 ms after the first worker's zero to 0.4 ms after it.
std::int64_t kInstantNs = 1'790'000'000'000'100'000;
std::int64_t kDurationNs = 300'000;

// A worker's trace: launches on a thread, kernels on a stream under a module, steps, a counter.
std::string Trace(std::int64_t zero_ns, std::int64_t late_ps = 0) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(13, "Stream #13(Compute)", 0);
  for (int i = 0; i < 1000; ++i) {
    gpu.AddEvent(gpu.EventId(StrCat("kernel_", i % 10)), late_ps + i * 1'000'000ll + 500'000,
                 400'000);
    gpu.AddEventStat(gpu.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  gpu.BeginLine(99, "XLA Modules", 0);
  gpu.AddEvent(gpu.EventId("jit_step"), late_ps, 500'000'000);
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int step = 0; step < 2; ++step) {
    host.AddEvent(host.EventId("train"), late_ps + step * 500'000'000ll, 490'000'000);
    host.AddEventStat(host.StatId("step_num"), static_cast<std::int64_t>(step));
  }
  for (int i = 0; i < 1000; ++i) {
    host.AddEvent(host.EventId("cudaLaunchKernel"), late_ps + i * 1'000'000ll, 100'000);
    host.AddEventStat(host.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  host.BeginLine(2, xplane::kCounterLine, 0);
  for (int i = 0; i < 10; ++i) {
    host.AddEvent(host.EventId("memory"), i * 100'000'000ll, 0);
    host.AddEventStat(host.StatId("bytes"), static_cast<std::int64_t>(i));
  }
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(zero_ns));
  xplane::PlaneBuilder strobe(xplane::kStrobePlane);
  strobe.AddPlaneStat("instant_ns", kInstantNs);
  strobe.AddPlaneStat("duration_ns", kDurationNs);
  return gpu.Encode() + host.Encode() + environment.Encode() + strobe.Encode();
}

class Shelf : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    ++listed;
    return std::vector<std::string>{"second", "first", "broken"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override {
    if (run == "broken" && opened++ == 0) return absl::PermissionDeniedError("the bucket says no");
    std::vector<convert::OpenTrace> traces;
    constexpr std::int64_t kZero = 1'790'000'000'000'000'000;
    for (const int worker : {0, 1})
      traces.push_back(
          {StrCat("w", worker), "",
           std::make_unique<const std::string>(Trace(kZero + worker * 7'000, worker * 3'000'000))});
    return traces;
  }
  std::string location() const override { return "file:///shelf"; }

  std::atomic<int> listed{0}, opened{0};
};

// A logdir that was named without one of its runs.
class Logdir final : public Shelf {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&,
                                                std::size_t most) override {
    return std::vector<std::string>(std::min(runs, most), "run");
  }
  bool has_catalog() const override { return true; }
  bool names_a_run() const override { return false; }

  std::size_t runs = 2;
};

// A run with a file that a test can change while the viewer has it open.
class Folder final : public Library {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() override { std::filesystem::remove_all(path_); }
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"run"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    std::vector<convert::OpenTrace> traces;
    traces.push_back({"w0", trace(), *MappedFile::Open(trace())});
    return traces;
  }
  std::string location() const override { return path_; }
  std::string trace() const { return path_ + "/w0.xplane.pb"; }
  void Write() const {
    std::ofstream(trace(), std::ios::binary) << Trace(1'790'000'000'000'000'000);
  }

 private:
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("strobe-viewer-", getpid())).native();
};

class ViewerTest : public testing::Test {
 protected:
  http::Page Get(const std::string& path, const std::string& query = "") {
    return viewer_.Answer({path, query, "127.0.0.1:80"});
  }
  json Ask(const std::string& path, const std::string& query = "") {
    http::Page page = Get(path, query);
    for (int i = 0; i < 200 && page.status == 503; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      page = Get(path, query);
    }
    EXPECT_EQ(page.status, 200) << page.body;
    return json::parse(page.body, nullptr, false);
  }
  json Run(const std::string& query = "") {
    json run = Ask("/api/run", query);
    while (run.contains("loading")) run = Ask("/api/run", query);
    return run;
  }

  Shelf shelf_;
  Router viewer_{shelf_, {}};
};

// The page asks for both at once, before it knows with which it begins.
TEST(Router, NoRunIsReadForAPageThatBeginsWithTheList) {
  Logdir logdir;
  Router viewer(logdir, {});
  const auto ask = [&](const std::string& query) {
    return json::parse(viewer.Answer({"/api/run", query, "127.0.0.1:80"}).body);
  };
  EXPECT_EQ(ask("run=&or=list"), json({{"opensList", true}}));
  EXPECT_FALSE(ask("run=run&or=list").contains("opensList")) << "the link names a run";
  logdir.runs = 1;
  EXPECT_FALSE(ask("run=&or=list").contains("opensList"));
}

TEST_F(ViewerTest, TablesSumUpWhatRan) {
  Run();
  const json kernels = Ask("/api/table", "table=kernels&worker=0");
  ASSERT_EQ(kernels["rows"].size(), 10u);
  EXPECT_EQ(kernels["rows"][0]["count"], 100);
  EXPECT_EQ(kernels["rows"][0]["totalPs"], 40'000'000);
  EXPECT_EQ(kernels["rows"][0]["launchedBy"], "train");
  const json both = Ask("/api/table", "table=kernels");
  EXPECT_EQ(both["rows"][0]["count"], 200);
  EXPECT_EQ(both["rows"][0]["workers"], 2);
  EXPECT_EQ(Ask("/api/table", "table=memory&worker=1")["rows"][0]["counter"], "memory");
  EXPECT_EQ(Ask("/api/table", "table=steps")["rows"].size(), 2u);
  EXPECT_EQ(Get("/api/table", "table=dreams").status, 404);
  EXPECT_EQ(Get("/api/table", "table=kernels&worker=x").status, 400);
  EXPECT_EQ(Get("/api/table", "table=kernels&worker=2").status, 404);
}

TEST_F(ViewerTest, TellsKindsOfWork) {
  Run();
  const json kinds = Ask("/api/kinds", "");
  EXPECT_EQ(kinds["rows"].size(), 2u) << "the streams of both workers";
  EXPECT_TRUE(kinds["device"].empty());
}

TEST_F(ViewerTest, DescribesARun) {
  EXPECT_EQ(Ask("/api/runs")["runs"][0], "second");
  const json run = Run();
  EXPECT_EQ(run["run"], "second");
  EXPECT_EQ(run["events"], 2 * 2013);
  EXPECT_EQ(run["workers"][1]["shiftPs"], 7'000'000);
  std::vector<std::string> rows;
  for (const json& row : run["rows"]) rows.push_back(row["name"]);
  EXPECT_THAT(rows, ElementsAre("XLA Modules", "Stream #13(Compute)", "main", "memory",
                                "XLA Modules", "Stream #13(Compute)", "main", "memory"));
}

TEST_F(ViewerTest, AnOpenRunIsNotLookedForAgain) {
  Run("run=first");
  const int listed = shelf_.listed;
  Ask("/api/find", "run=first&q=kernel");
  EXPECT_EQ(Get("/api/tiles", "run=first&rows=0&level=20&slots=512").status, 200);
  EXPECT_EQ(shelf_.listed, listed) << "each listing of a bucket costs time and money";
}

TEST_F(ViewerTest, TilesHoldEveryEventOnce) {
  Run();
  for (const std::uint32_t level : {10u, 20u, 28u}) {
    std::uint64_t sum = 0;
    const std::uint64_t slots = std::min<std::uint64_t>(4096, (2'000'000'000ull >> level) + 2);
    for (std::uint64_t begin = 0; begin < 2'000'000'000; begin += slots << level) {
      const http::Page page =
          Get("/api/tiles", StrCat("rows=0-2&begin=", begin, "&level=", level, "&slots=", slots));
      ASSERT_EQ(page.status, 200);
      wire::VarintReader reader(page.body);
      EXPECT_EQ(reader.Next(), 1u);
      std::vector<std::uint64_t> items;
      for (std::uint64_t tracks = reader.Next(); tracks > 0; --tracks) {
        reader.Next(), reader.Next(), reader.Next();
        items.push_back(reader.Next());
        reader.Next();
      }
      for (std::uint64_t texts = reader.Next(); texts > 0; --texts) {
        for (std::uint64_t size = reader.Next(); size > 0; --size) reader.Next();  // ASCII.
      }
      std::uint64_t all = 0;
      for (const std::uint64_t n : items) all += n;
      std::vector<bool> before;
      for (std::uint64_t i = 0; i < all; ++i) reader.Next();
      for (std::uint64_t i = 0; i < all; ++i) before.push_back(reader.Next() % 2 == 1);
      for (std::uint64_t i = 0; i < all; ++i) reader.Next();
      // Items that begin before this tile were counted in the tile where they begin.
      for (std::uint64_t i = 0; i < all; ++i) {
        const std::uint64_t count = reader.Next();
        if (!before[i]) sum += count;
      }
    }
    EXPECT_EQ(sum, 1u + 1000u + 1002u) << "level " << level;
  }
}

TEST_F(ViewerTest, FindsForwardsAndBackwards) {
  Run();
  json found = Ask("/api/find", "q=KERNEL_3&limit=3");
  EXPECT_EQ(found["total"], 200);
  EXPECT_EQ(found["hits"][0]["beginPs"], 3'500'000);
  EXPECT_EQ(found["hits"].size(), 3u);
  EXPECT_EQ(Ask("/api/find", "q=KERNEL_3&case=1")["total"], 0);
  found = Ask("/api/find", "q=kernel_[34]$&regex=1&backwards=1&from=100000000000&limit=2");
  EXPECT_EQ(found["total"], 400);
  // The second worker's kernel: at 994.5 us, 3 us late; its profile starts 7 us later.
  EXPECT_EQ(found["hits"][0]["beginPs"], 994'500'000 + 3'000'000 + 7'000'000);
  EXPECT_GT(found["hits"][0]["beginPs"], found["hits"][1]["beginPs"]);
  EXPECT_EQ(Ask("/api/events", "rows=1&from=999000000")["hits"].size(), 1u);
}

TEST_F(ViewerTest, ASearchGoesOnFromAHit) {
  Run();
  const std::string kernels = "q=kernel_&count=0&limit=2";
  const json first = Ask("/api/find", kernels)["hits"];
  ASSERT_EQ(first.size(), 2u);
  const auto at = [](const json& hit) {
    return StrCat("&after=", hit["row"].dump(), ":", hit["track"].dump(), ":",
                  hit["ordinal"].dump());
  };
  EXPECT_EQ(Ask("/api/find", kernels + at(first[0]))["hits"][0], first[1]);
  const json back = Ask("/api/find", kernels + "&backwards=1" + at(first[1]))["hits"];
  EXPECT_EQ(back, json::array({first[0]}));
  EXPECT_EQ(Get("/api/find", kernels + "&after=x").status, 400);
  EXPECT_EQ(Get("/api/find", kernels + "&after=99:0:0").status, 404);
}

TEST_F(ViewerTest, AListOfEventsGoesOnBehindOneOfThem) {
  Run();
  const json hits = Ask("/api/events", "rows=1&after=1:0:997")["hits"];
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0]["ordinal"], 998);
  for (const char* wrong : {"1", "1:0", "1:0:1:1", "x"})
    EXPECT_EQ(Get("/api/events", StrCat("rows=1&after=", wrong)).status, 400) << wrong;
  for (const char* missing : {"99:0:0", "1:9:0", "1:0:99999"})
    EXPECT_EQ(Get("/api/events", StrCat("rows=1&after=", missing)).status, 404) << missing;
}

TEST_F(ViewerTest, TellsAllOfAnEvent) {
  Run();
  const json event = Ask("/api/event", "row=1&track=0&ordinal=5");
  EXPECT_EQ(event["name"], "kernel_5");
  EXPECT_EQ(event["beginPs"], 5'500'000);
  EXPECT_EQ(event["args"][0]["value"], 6);
  EXPECT_EQ(event["module"]["name"], "jit_step") << "by time, on the same device";
  EXPECT_EQ(event["in"][0]["name"], "cudaLaunchKernel");
  EXPECT_EQ(Ask("/api/event", "row=1&track=0&at=5600000")["ordinal"], 5);
  EXPECT_EQ(Ask("/api/event", "row=1&track=0&at=5000000&slop=600000")["ordinal"], 5);
  EXPECT_EQ(Ask("/api/event", "row=1&track=0&at=5600000&slop=5000000&here=1")["ordinal"], 5);
  EXPECT_EQ(Ask("/api/event", "row=1&track=0&at=5950000&slop=5000000&here=1")["ordinal"], 6)
      << "nothing runs there, so the next one";
  const json train = Ask("/api/event", "row=2&track=0&ordinal=0");
  EXPECT_EQ(train["selfPs"], 490'000'000 - 490 * 100'000);
  EXPECT_EQ(Ask("/api/event", "row=2&track=1&ordinal=3")["parent"]["name"], "train");
  EXPECT_EQ(Get("/api/event", "row=1&track=0&at=-5").status, 404);
}

TEST(EventAt, AShortEventIsNotTakenForTheLongOneBehindIt) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "thread", 0);
  host.AddEvent(host.EventId("short"), 1000, 10);
  host.AddEvent(host.EventId("long"), 1012, 5000);
  const LoadedRun run = MadeRun({host.Encode()});
  EXPECT_EQ(EventAt(run, 0, 0, 1005, 64), 1u) << "of a pixel, the longest";
  EXPECT_EQ(EventAt(run, 0, 0, 1005, 64, Prefer::kHere), 0u);
  EXPECT_EQ(EventAt(run, 0, 0, 1011, 64, Prefer::kHere), 1u) << "nothing runs there";
  EXPECT_EQ(EventAt(run, 0, 0, 900, 64, Prefer::kHere), std::nullopt);
}

TEST_F(ViewerTest, SumsABox) {
  Run();
  const json sums = Ask("/api/select", "tracks=1:0-0,2:0-1&begin=0&end=10000000");
  EXPECT_EQ(sums["count"], 10 + 10 + 1);
  for (const json& sum : sums["names"]) {
    if (sum["name"] != "cudaLaunchKernel") continue;
    EXPECT_EQ(sum["count"], 10);
    EXPECT_EQ(sum["wallPs"], 1'000'000);
  }
}

TEST_F(ViewerTest, SumsSeveralBoxesAndEventsEachEventOnce) {
  Run();
  // The boxes overlap by half; one of the events lies in a box.
  const json sums = Ask("/api/select",
                        "tracks=1:0-0:0:10000000,1:0-0:5000000:15000000,2:1-1:0:1000000"
                        "&events=1:0:3,1:0:20,1:0:20,1:0:999999,99:0:0,1:7:0");
  EXPECT_EQ(sums["count"], 15 + 1 + 1);
  EXPECT_EQ(sums["beginPs"], 0);
  EXPECT_EQ(sums["endPs"], 20'900'000);
  EXPECT_EQ(Ask("/api/select", "events=1:0:20")["count"], 1);
  EXPECT_EQ(Ask("/api/select", "tracks=&events=")["count"], 0);
  for (const char* wrong :
       {"tracks=1:0-0:5", "tracks=1:0-0:5:", "tracks=1:0-0:9:5", "tracks=1:0-0:1:2:3",
        "tracks=1:0-0:0:9223372036854775807", "events=1:0", "events=1:0:2:3", "events=x"})
    EXPECT_EQ(Get("/api/select", wrong).status, 400) << wrong;
}

TEST(SumSelection, BoxesThatOverlapAreReadOnceAndGapsBetweenThemAreNot) {
  constexpr std::int64_t kStep = 1000;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 1000; ++i) {
    host.AddEvent(host.EventId("outer"), i * kStep, 900);
    for (int j = 0; j < 2; ++j) host.AddEvent(host.EventId("inner"), i * kStep + j * 300, 100);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  std::vector<SelectedBox> boxes;
  for (int i = 500; i-- > 0;) boxes.push_back({0, 0, 0, i * kStep, (i + 5) * kStep});
  boxes.push_back({0, 0, 0, 600 * kStep + 450, 600 * kStep + 450});  // Inside of one event.
  boxes.push_back({0, 0, 0, 650 * kStep + 950, 650 * kStep + 950});  // Between two.
  const Selection found =
      SumSelection(run, boxes, {{0, 0, 999}, {0, 0, 3}, {0, 0, 700}, {0, 0, 700}});
  constexpr std::int64_t kSelected = 504 + 1 + 2;
  ASSERT_EQ(found.names.size(), 1u);
  EXPECT_EQ(found.count, static_cast<std::uint64_t>(kSelected));
  EXPECT_EQ(found.names[0].count, found.count);
  EXPECT_EQ(found.names[0].wall_ps, kSelected * 900);
  EXPECT_EQ(found.names[0].self_ps, kSelected * 700) << "each without its own two inner events";
  EXPECT_EQ(found.begin_ps, 0);
  EXPECT_EQ(found.end_ps, 999 * kStep + 900);
}

// Regression: for each track, all tracks of its row were searched.
TEST(SumSelection, SelfTimesOfManyTracksAreRead) {
  constexpr std::int64_t kLanes = 512, kDepth = 512;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  const std::int64_t name = host.EventId("nested");
  for (std::int64_t lane = 0, begin = 0; lane < kLanes; ++lane) {
    for (std::int64_t depth = 0; depth < kDepth; ++depth, ++begin)
      host.AddEvent(name, begin, (lane + 2) * 10'000'000 - depth - begin);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  const Selection found = SumSelection(run, {{0, 0, kLanes * kDepth, 0, 10'000'000}}, {});
  ASSERT_EQ(found.names.size(), 1u);
  EXPECT_EQ(found.count, static_cast<std::uint64_t>(kLanes * kDepth));
  // Each event lasts two picoseconds longer than the one inside of it.
  std::int64_t self = kLanes * (kDepth - 1) * 2;
  for (std::int64_t lane = 0; lane < kLanes; ++lane)
    self += (lane + 2) * 10'000'000 - (kDepth - 1) - (lane * kDepth + kDepth - 1);
  EXPECT_EQ(found.names[0].self_ps, self);
}

TEST(SumSelection, EachWorkerIsSummedByItself) {
  std::vector<std::string> traces;
  for (const std::int64_t length : {100, 300}) {
    xplane::PlaneBuilder host(xplane::kHostPlane);
    host.BeginLine(1, "main", 0);
    for (int i = 0; i < 3; ++i) host.AddEvent(host.EventId("step"), i * 1000, length);
    traces.push_back(host.Encode());
  }
  const LoadedRun run = MadeRun(traces);
  const Selection found = SumSelection(run, {{0, 0, 0, 0, 5000}, {1, 0, 0, 0, 2000}}, {});
  EXPECT_EQ(found.count, 5u);
  ASSERT_EQ(found.names.size(), 2u);
  EXPECT_EQ(found.names[0].worker, 1u) << "it has the most self time";
  EXPECT_EQ(found.names[0].self_ps, 600);
  EXPECT_EQ(found.names[1].worker, 0u);
  EXPECT_EQ(found.names[1].count, 3u);
}

TEST_F(ViewerTest, ARowThatIsAskedForSeveralTimesIsAnsweredOnce) {
  Run();
  const http::Page once = Get("/api/tiles", "rows=0-1&level=20&slots=512");
  ASSERT_EQ(once.status, 200);
  EXPECT_EQ(Get("/api/tiles", "rows=1,0,0-1,1&level=20&slots=512").body, once.body);
  EXPECT_EQ(Ask("/api/arrows", "rows=1,2,1&begin=0&end=10000000")["total"], 10);
}

TEST_F(ViewerTest, TellsTheTimeThatTheCaptureAskedFor) {
  EXPECT_EQ(Run()["window"], json({{"beginPs", 100'000'000}, {"endPs", 400'000'000}}));
}

class WindowTest : public ViewerTest, public testing::WithParamInterface<std::int64_t> {
 protected:
  WindowTest() { std::swap(kInstantNs, instant_); }
  ~WindowTest() override { std::swap(kInstantNs, instant_); }
  std::int64_t instant_ = GetParam();
};

TEST_P(WindowTest, OfADamagedTraceIsLeftOut) { EXPECT_TRUE(Run()["window"].is_null()); }

INSTANTIATE_TEST_SUITE_P(, WindowTest,
                         testing::Values(0, -5, std::numeric_limits<std::int64_t>::max()));

TEST_F(ViewerTest, TheActivityTellsHowBusyEachSectionIs) {
  const json run = Run();
  const json activity = Ask("/api/activity", "slots=100&bands=8");
  const std::int64_t begin = activity["beginPs"], slot = activity["slotPs"];
  EXPECT_LE(begin, run["beginPs"].get<std::int64_t>());
  ASSERT_EQ(activity["bands"].size(), 4u) << "GPU and host of two workers";
  const std::size_t slots = activity["bands"][0].size();
  EXPECT_LE(slots, 100u);
  EXPECT_GE(slots, 50u);
  EXPECT_GE(begin + slot * static_cast<std::int64_t>(slots), run["endPs"].get<std::int64_t>());
  // The GPU has a module in the first half and kernels of 0.4 us each 1 us all the time.
  const auto at = [&](int band, std::int64_t ps) {
    return activity["bands"][band][static_cast<std::size_t>((ps - begin) / slot)].get<double>();
  };
  EXPECT_NEAR(at(0, 250'000'000), 255 * (1 + 0.4) / 2, 15);
  EXPECT_NEAR(at(0, 750'000'000), 255 * 0.4 / 2, 15);
  EXPECT_NEAR(at(1, 250'000'000), 255, 3) << "a step encloses the thread's other events";
  // Neighbours share a band when there are too few.
  EXPECT_EQ(Ask("/api/activity", "slots=100&bands=2")["bands"].size(), 2u);
  EXPECT_EQ(Get("/api/activity", "slots=1").status, 400);
  EXPECT_EQ(Get("/api/activity", "bands=0").status, 400);
}

TEST_F(ViewerTest, ArrowsAreToldOnceAndJoined) {
  Run();
  json arrows = Ask("/api/arrows", "rows=1,2&begin=0&end=10000000");
  EXPECT_EQ(arrows["total"], 10);
  EXPECT_EQ(arrows["bundles"].size(), 10u);
  EXPECT_EQ(arrows["bundles"][0][0][0], 2) << "from the thread";
  EXPECT_EQ(arrows["bundles"][0][1][0], 1) << "to the stream";
  arrows = Ask("/api/arrows", "rows=1&limit=100");
  EXPECT_EQ(arrows["total"], 1000);
  EXPECT_EQ(arrows["drawn"], 1000);
  EXPECT_LE(arrows["bundles"].size(), 100u);
  EXPECT_EQ(Get("/api/arrows", "rows=1&level=99").status, 400);
}

TEST_F(ViewerTest, SearchesWhereItIsTold) {
  Run();
  EXPECT_EQ(Ask("/api/find", "q=correlation_id")["total"], 0);
  const json found = Ask("/api/find", "q=correlation_id&in=all&limit=1");
  EXPECT_EQ(found["total"], 4000);
  EXPECT_EQ(found["hits"][0]["matched"]["name"], "correlation_id");
  EXPECT_EQ(found["unread"], 0);
  EXPECT_EQ(Get("/api/find", "q=x&in=everywhere").status, 400);
}

TEST_F(ViewerTest, WhatARequestTakesIsJudgedByTheRunThatItsAskerMaySee) {
  Run("run=second");
  const auto load = [this](const char* path, const char* query,
                           const catalog::Visible* visible = &catalog::kAllVisible) {
    return viewer_.LoadOf({path, query, "localhost"}, visible);
  };
  using http::Load;
  for (const char* path : {"/api/select", "/api/steps", "/api/report", "/api/manifest",
                           "/api/perfetto", "/data/plugin/profile/data"})
    EXPECT_EQ(load(path, "run=second"), Load::kHeavy) << path;
  EXPECT_EQ(load("/api/file", "run=second"), Load::kWaits);
  for (const char* path : {"/api/run", "/api/runs", "/app.js", "/api/tiles"})
    EXPECT_EQ(load(path, "run=second&rows=0-255&slots=512"), Load::kShort) << path;
  EXPECT_EQ(load("/api/tiles", "run=first&rows=0-1023&slots=4096"), Load::kHeavy);
  EXPECT_EQ(load("/api/find", "run=second&q=x&in=texts"), Load::kShort) << "the run is small";
  const catalog::Visible nothing;
  for (const catalog::Visible* visible : {static_cast<const catalog::Visible*>(nullptr), &nothing})
    for (const char* run : {"run=second&q=x", "run=none&q=x"})
      EXPECT_EQ(load("/api/find", run, visible), Load::kHeavy) << "hidden or none: the same";
}

// Regression: any page could make `strobe view` convert the newest run, by the address of a
// picture.
TEST_F(ViewerTest, PagesOfOtherSitesGetNoDataAndCauseNoWork) {
  for (const char* site : {"cross-site", "same-site", "", "anything"}) {
    for (const char* path :
         {"/api/perfetto", "/api/report", "/api/runs", "/api/none", "/data/plugin/profile/data"}) {
      const http::Page page = viewer_.Answer(
          {.path = path, .host = "localhost", .headers = {{"Sec-Fetch-Site", site}}});
      EXPECT_EQ(page.status, 403) << site << " " << path;
    }
  }
  const http::Page twice =
      viewer_.Answer({.path = "/api/runs",
                      .host = "localhost",
                      .headers = {{"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "cross-site"}}});
  EXPECT_EQ(twice.status, 403);
  EXPECT_EQ(shelf_.listed, 0);
  for (const char* site : {"same-origin", "none"}) {
    const http::Page page = viewer_.Answer(
        {.path = "/api/runs", .host = "localhost", .headers = {{"Sec-Fetch-Site", site}}});
    EXPECT_EQ(page.status, 200) << site;
  }
  EXPECT_EQ(Get("/api/runs").status, 200) << "a program";
  const http::Page link = viewer_.Answer(
      {.path = "/", .host = "localhost", .headers = {{"Sec-Fetch-Site", "cross-site"}}});
  EXPECT_EQ(link.status, 200) << "a link to the page";
}

// A library with a defect in all that it does.
class ThrowingShelf final : public Library {
 public:
  [[noreturn]] static void Throw() { throw std::out_of_range("a defect"); }
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    Throw();
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override { Throw(); }
  absl::StatusOr<std::string> StampOf(const std::string&) override { Throw(); }
  absl::Status Find(const std::string& run) override {
    if (run == "bad") Throw();
    return absl::OkStatus();
  }
  absl::StatusOr<StoredRun> Store(const std::string&) override { Throw(); }
  bool has_catalog() const override { return true; }
  const catalog::Catalog* catalog() override { Throw(); }
  std::string location() const override { return "file:///shelf"; }
};

TEST(Viewer, ARequestThatThrowsIsAnsweredWith500AndTheServerLives) {
  ThrowingShelf shelf;
  Router viewer(shelf, {});
  for (const char* path :
       {"/api/runs", "/api/run", "/api/report", "/api/catalog", "/api/tiles", "/api/events",
        "/api/steps", "/api/manifest", "/api/file", "/api/perfetto", "/data/plugin/profile/runs",
        "/data/plugin/profile/data"}) {
    for (const char* query : {"", "run=bad", "run=good&file=x&make=always"}) {
      http::Page page = viewer.Answer({path, query, "localhost"});
      for (int i = 0; i < 1000 && (page.status == 503 || page.status == 200); ++i) {
        // The thread that loads the run has thrown soon.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        page = viewer.Answer({path, query, "localhost"});
        if (path == std::string("/api/runs") || page.status == 500) break;
      }
      EXPECT_EQ(page.status, 500) << path << "?" << query << ": " << page.body;
      EXPECT_THAT(page.headers, testing::Contains(testing::Key("Content-Security-Policy")));
    }
  }
  EXPECT_EQ(viewer.Answer({"/", "", "localhost"}).status, 200);
}

TEST(EventDetails, AnOpOfASparseCoreHasItsModuleAndStep) {
  const LoadedRun run = MadeRun({SparseCorePlane()});
  const absl::StatusOr<std::string> details =
      EventDetails(run, RowNamed(run, "Sparse Core Ops"), 0, 0);
  ASSERT_TRUE(details.ok()) << details.status();
  const json event = json::parse(*details);
  EXPECT_EQ(event["module"]["name"], "jit_step(1)");
  EXPECT_EQ(event["step"]["name"], "7");
}

TEST_F(ViewerTest, ComparesSteps) {
  Run();
  const json steps = Ask("/api/steps")["steps"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1]["number"], 1);
  EXPECT_EQ(steps[1]["lastToBegin"], 1);
  EXPECT_EQ(steps[1]["beginSpreadPs"], 10'000'000);
}

TEST_F(ViewerTest, AnswersXprof) {
  EXPECT_EQ(Ask("/data/plugin/profile/hosts", "run=first")[1]["hostname"], "w1");
  const json all = Ask("/data/plugin/profile/data", "tag=trace_viewer@&host=w0&resolution=0");
  std::size_t spans = 0;
  for (const json& event : all["traceEvents"]) spans += event.value("ph", "") == "X";
  EXPECT_EQ(spans, 2003u);
  EXPECT_EQ(all["filteredByVisibility"], false);
  const json few = Ask("/data/plugin/profile/data", "tag=trace_viewer@&host=w0&resolution=20");
  EXPECT_LT(few["returnedEventsSize"], 120);
}

TEST_F(ViewerTest, WhatCannotBeReadSaysWhy) {
  http::Page page = Get("/api/run", "run=broken");
  EXPECT_EQ(page.status, 500);
  EXPECT_EQ(page.body, "the bucket says no\n");
  EXPECT_EQ(Run("run=broken")["events"], 2 * 2013) << "asked again, it is tried again";
  EXPECT_EQ(Get("/api/run", "run=none").status, 404);
}

TEST_F(ViewerTest, ServesThePageUnderAStrictPolicy) {
  const http::Page page = viewer_.Answer({"/", "", "localhost"});
  EXPECT_THAT(page.body, HasSubstr("<title>Strobe trace viewer</title>"));
  EXPECT_EQ(page.headers.at(0).first, "Content-Security-Policy");
  EXPECT_THAT(page.headers.at(0).second, HasSubstr("default-src 'none'"));
  EXPECT_EQ(viewer_.Answer({"/", "", "evil.example"}).status, 403);
}

TEST_F(ViewerTest, ManyAskAtOnceAndRunsComeAndGo) {
  std::vector<std::thread> pages;
  for (int i = 0; i < 4; ++i) {
    pages.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) {
        Get("/api/run", i % 2 == 0 ? "run=first" : "run=second");
        Get("/api/tiles", "run=first&rows=0-7&level=20&slots=512");
        Get("/api/find", "run=second&q=kernel");
      }
    });
  }
  for (std::thread& page : pages) page.join();
}

// Runs that are read once the test lets them be.
class StoredShelf final : public Library {
 public:
  explicit StoredShelf(std::string logdir) : logdir_(std::move(logdir)) {}
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"run"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    std::vector<convert::OpenTrace> traces;
    traces.push_back({"w0", "", std::make_unique<const std::string>(Trace(kInstantNs))});
    return traces;
  }
  std::string location() const override { return logdir_; }
  std::string LogdirOf(const std::string&) const override { return logdir_; }

 private:
  const std::string logdir_;
};

// Regression: four questions about events of a store that did not answer kept everybody waiting.
TEST(Viewer, TilesOfAnOpenRunWaitForNoStore) {
  StoredShelf shelf("s3://bucket/logs");
  Router viewer(shelf, RouterOptions{});
  const auto asks = [&viewer](const char* path, const char* query = "run=run") {
    return viewer.MayAskStore({path, query, "localhost"});
  };
  EXPECT_TRUE(asks("/api/run"));
  EXPECT_TRUE(asks("/api/tiles")) << "the run is not open";
  while (
      json::parse(viewer.Answer({"/api/run", "run=run", "localhost"}).body).contains("loading")) {
  }
  EXPECT_TRUE(asks("/api/run")) << "its traces are listed again";
  EXPECT_FALSE(asks("/api/tiles"));
  EXPECT_FALSE(asks("/api/find", "run=run&q=x"));
  EXPECT_TRUE(asks("/api/find", "run=run&q=x&in=texts"));
  EXPECT_TRUE(asks("/api/event"));
  EXPECT_TRUE(asks("/api/graph"));
  EXPECT_TRUE(asks("/api/tiles", "run=other"));
  EXPECT_FALSE(asks("/app.js"));
}

TEST(Viewer, LocalRunsAskNoStore) {
  for (const char* logdir : {"file:///logs", "/logs"}) {
    StoredShelf shelf(logdir);
    const Router viewer(shelf, RouterOptions{});
    EXPECT_FALSE(viewer.MayAskStore({"/api/event", "run=run", "localhost"})) << logdir;
  }
}

class HeldShelf final : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"a", "b", "c", "d", "e", "file"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override {
    {
      MutexLock lock(&mutex_);
      ++opened_[run];
      // The bound lets a test that fails come to its end.
      const bool let = mutex_.AwaitFor(
          std::chrono::minutes(1),
          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return let_.contains(run); });
      if (!let) ++out_of_time_;
    }
    if (run == "file") return folder_.Open(run);
    std::vector<convert::OpenTrace> traces;
    traces.push_back(
        {"w0", "", std::make_unique<const std::string>(Trace(1'790'000'000'000'000'000))});
    return traces;
  }
  std::string location() const override { return "file:///held"; }
  // The run "file" is read from here.
  const Folder& folder() const { return folder_; }

  void Let(const std::string& run) {
    MutexLock lock(&mutex_);
    let_.insert(run);
  }
  int opened(const std::string& run) {
    MutexLock lock(&mutex_);
    return opened_[run];
  }
  // How often the test did not let a run be read in time.
  int out_of_time() {
    MutexLock lock(&mutex_);
    return out_of_time_;
  }

 private:
  Folder folder_;
  Mutex mutex_;
  std::set<std::string> let_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> opened_ ABSL_GUARDED_BY(mutex_);
  int out_of_time_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ManyRunsTest : public testing::Test {
 protected:
  bool IsLoading(const std::string& run) {
    const http::Page page = viewer_.Answer({"/api/run", "run=" + run, "localhost"});
    EXPECT_EQ(page.status, 200) << page.body;
    return json::parse(page.body, nullptr, false).contains("loading");
  }
  void Load(const std::string& run) {
    shelf_.Let(run);
    while (IsLoading(run)) {
    }
  }

  HeldShelf shelf_;
  const std::shared_ptr<SimulatedTime> clock_ = std::make_shared<SimulatedTime>();
  Router viewer_{shelf_, {.max_open = 2, .clock = clock_}};
};

TEST_F(ManyRunsTest, RunsThatAreBeingReadDoNotEvictOneAnother) {
  for (int round = 0; round < 2; ++round) {
    for (const char* run : {"a", "b", "c"}) EXPECT_TRUE(IsLoading(run)) << run;
  }
  EXPECT_EQ(shelf_.opened("c"), 0) << "two are being read";
  Load("a");
  Load("c");
  Load("b");
  for (const char* run : {"a", "b", "c"}) EXPECT_EQ(shelf_.opened(run), 1) << run;
}

TEST_F(ManyRunsTest, ARunForWhichNobodyWaitsGivesWay) {
  EXPECT_TRUE(IsLoading("a"));
  EXPECT_TRUE(IsLoading("b"));
  shelf_.Let("a");  // Nobody comes to get it.
  clock_->Advance(std::chrono::seconds(4));
  EXPECT_TRUE(IsLoading("b"));
  EXPECT_TRUE(IsLoading("c"));
  EXPECT_EQ(shelf_.opened("c"), 0) << "it may still be asked for";
  clock_->Advance(std::chrono::seconds(2));
  Load("c");
  Load("b");
  for (const char* run : {"a", "b", "c"}) EXPECT_EQ(shelf_.opened(run), 1) << run;
}

TEST_F(ManyRunsTest, AStoreThatDoesNotAnswerHoldsUpNoOtherRuns) {
  constexpr Nanos kTooLong = std::chrono::seconds(6);
  EXPECT_TRUE(IsLoading("a"));
  EXPECT_TRUE(IsLoading("b"));
  clock_->Advance(kTooLong);
  Load("c");
  Load("d");
  EXPECT_EQ(shelf_.out_of_time(), 0) << "the store still does not answer for a and b";
  EXPECT_TRUE(IsLoading("e"));
  clock_->Advance(kTooLong);
  EXPECT_TRUE(IsLoading("a"));
  clock_->Advance(kTooLong);
  // Evicts e. Three threads wait for the store and nobody for them, which is one too many.
  EXPECT_TRUE(IsLoading("b"));
  EXPECT_EQ(shelf_.opened("b"), 1);
  for (const char* run : {"a", "b", "e"}) shelf_.Let(run);
  Load("b");
  EXPECT_EQ(shelf_.opened("b"), 2);
  EXPECT_EQ(shelf_.out_of_time(), 0);
}

bool IsMapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(path)) return true;
  return false;
}

// Regression: it was kept until another run was opened.
TEST_F(ManyRunsTest, ARunThatWasEvictedWhileSomebodyWaitedIsFreedOnceTheyHaveTheirAnswer) {
  shelf_.folder().Write();
  http::Page answer;
  std::thread waiting([&] {
    answer = viewer_.Answer({"/data/plugin/profile/hosts", "run=file", "localhost"});
  });
  while (shelf_.opened("file") == 0) std::this_thread::yield();
  EXPECT_TRUE(IsLoading("b"));
  clock_->Advance(std::chrono::seconds(6));
  EXPECT_TRUE(IsLoading("c"));
  EXPECT_EQ(shelf_.opened("c"), 1) << "in the place of the first";
  shelf_.Let("file");
  waiting.join();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_FALSE(IsMapped(shelf_.folder().trace()));
  for (const char* run : {"b", "c"}) shelf_.Let(run);
}

// Runs of one file each, of which the process has room for two at the same time.
class TightShelf final : public Library {
 public:
  TightShelf() { std::filesystem::create_directories(path_); }
  ~TightShelf() override { std::filesystem::remove_all(path_); }
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"a", "b", "c", "large"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override {
    const auto mapped = std::ranges::count_if(
        std::array{"a", "b", "c"}, [&](const char* other) { return IsMapped(PathOf(other)); });
    if (mapped >= 2 || run == "large")
      return absl::ResourceExhaustedError("too many memory-mapped files are open");
    std::ofstream(PathOf(run), std::ios::binary) << Trace(1'790'000'000'000'000'000);
    std::vector<convert::OpenTrace> traces;
    traces.push_back({"w0", PathOf(run), *MappedFile::Open(PathOf(run))});
    return traces;
  }
  std::string location() const override { return path_; }
  std::string PathOf(const std::string& run) const { return StrCat(path_, "/", run); }

 private:
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("strobe-tight-", getpid())).native();
};

// Has a run of every name.
class EveryRun final : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{};
  }
  absl::Status Find(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    std::vector<convert::OpenTrace> traces;
    traces.push_back(
        {"w0", "", std::make_unique<const std::string>(Trace(1'790'000'000'000'000'000))});
    return traces;
  }
  std::string location() const override { return "file:///every"; }
};

TEST(ViewerOfFiles, WhoOpensManyRunsEvictsTheirOwn) {
  EveryRun shelf;
  Router viewer(shelf, {.max_open = 3});
  const auto open = [&](const std::string& asker, const std::string& run) {
    http::Page page;
    do
      page = viewer.Answer(
          {.path = "/api/run", .query = "run=" + run, .host = "localhost", .asker = asker});
    while (page.status == 200 && json::parse(page.body).contains("loading"));
    EXPECT_EQ(page.status, 200) << page.body;
  };
  const auto is_open = [&](const std::string& run) {
    return viewer.LoadOf({"/api/find", "q=x&run=" + run, "localhost"}, &catalog::kAllVisible) ==
           http::Load::kShort;
  };
  open("bob", "bobs");
  for (const char* run : {"a", "b", "c", "d", "e"}) open("mallory", run);
  EXPECT_TRUE(is_open("bobs")) << "although it was asked for longest ago";
  EXPECT_TRUE(is_open("e"));
  EXPECT_FALSE(is_open("a"));
  open("zoe", "zoes");
  EXPECT_TRUE(is_open("bobs"));
  EXPECT_FALSE(is_open("d"));
}

// Regression: the third was refused for ever, although the runs that had the room were only kept in
// case that somebody asks for them again.
TEST(ViewerOfFiles, ARunForWhichTheProcessHasNoRoomEvictsTheOldest) {
  TightShelf shelf;
  Router viewer(shelf, {.max_open = 8});
  const auto open = [&](const std::string& run) {
    http::Page page;
    do page = viewer.Answer({"/api/run", "run=" + run, "localhost"});
    while (page.status == 200 && json::parse(page.body).contains("loading"));
    return page;
  };
  for (const char* run : {"a", "b", "a", "c"}) EXPECT_EQ(open(run).status, 200) << run;
  EXPECT_TRUE(IsMapped(shelf.PathOf("a")));
  EXPECT_FALSE(IsMapped(shelf.PathOf("b"))) << "it was asked for longest ago";
  const http::Page refused = open("large");
  EXPECT_EQ(refused.status, 500);
  EXPECT_THAT(refused.body, HasSubstr("too many memory-mapped files are open; try again"));
  for (const char* run : {"a", "b"}) EXPECT_EQ(open(run).status, 200) << run;
}

TEST(ViewerOfFiles, ATraceThatIsTruncatedIsToldAndReadAnew) {
  Folder folder;
  folder.Write();
  Router viewer(folder, {});
  const auto get = [&](const std::string& path, const std::string& query) {
    http::Page page = viewer.Answer({path, query, "localhost"});
    while (page.status == 503) page = viewer.Answer({path, query, "localhost"});
    return page;
  };
  const std::string event = "row=0&track=0&ordinal=0", find = "q=kernel";
  EXPECT_EQ(get("/api/event", event).status, 200);
  std::filesystem::resize_file(folder.trace(), 50);
  for (const auto& [path, query] : {std::pair("/api/event", event), std::pair("/api/run", find)}) {
    const http::Page page = get(path, query);
    EXPECT_EQ(page.status, 500) << path;
    EXPECT_THAT(page.body, testing::AnyOf(HasSubstr("was changed"), HasSubstr("damaged or cut")));
  }
  folder.Write();
  EXPECT_EQ(get("/api/event", event).status, 200) << "cured by whoever wrote it again";
}

// A run whose workers store their traces one after the other.
class ArrivingRun final : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"run"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    ++opened;
    std::vector<convert::OpenTrace> traces;
    for (int worker = 0; worker < workers; ++worker)
      traces.push_back({StrCat("w", worker), "",
                        std::make_unique<const std::string>(StepsTrace(worker, 40, 8))});
    return traces;
  }
  absl::StatusOr<std::string> StampOf(const std::string&) override {
    ++listed;
    if (!store.ok()) return store;
    return StrCat(workers);
  }
  std::string location() const override { return "s3://bucket/logs"; }

  int workers = 1;
  absl::Status store{};
  std::atomic<int> opened{0}, listed{0};
};

class ChangedRunTest : public testing::Test {
 protected:
  json Open() {
    for (;;) {
      const http::Page page = viewer_.Answer({"/api/run", "run=run", "localhost"});
      EXPECT_EQ(page.status, 200) << page.body;
      const json run = json::parse(page.body, nullptr, false);
      if (!run.contains("loading")) return run;
    }
  }
  http::Page AskEvent(const std::string& version) {
    return viewer_.Answer(
        {"/api/event", "run=run&row=0&track=0&ordinal=0&version=" + version, "localhost"});
  }

  ArrivingRun library_;
  const std::shared_ptr<SimulatedTime> clock_ = std::make_shared<SimulatedTime>();
  Router viewer_{library_, {.clock = clock_}};
};

TEST_F(ChangedRunTest, TracesThatWereAddedAreShownToWhoOpensTheRunThen) {
  const json before = Open();
  EXPECT_EQ(before["workers"].size(), 1u);
  library_.workers = 2;
  clock_->Advance(std::chrono::seconds(3));
  const json after = Open();
  EXPECT_EQ(after["workers"].size(), 2u);
  EXPECT_NE(after["version"], before["version"]);
}

TEST_F(ChangedRunTest, APageOfTheTracesOfBeforeIsRefusedNumbersOfOtherRows) {
  const std::string before = Open()["version"];
  EXPECT_EQ(AskEvent(before).status, 200);
  library_.workers = 2;
  clock_->Advance(std::chrono::seconds(3));
  const std::string after = Open()["version"];
  const http::Page refused = AskEvent(before);
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("reload the page"));
  EXPECT_EQ(AskEvent(after).status, 200);
  EXPECT_EQ(AskEvent("").status, 200) << "a program that asks for no version";
}

TEST_F(ChangedRunTest, TheSameTracesHaveTheSameVersionInAnotherServer) {
  Router other{library_, {.clock = clock_}};
  const std::string version = Open()["version"];
  http::Page page;
  do {
    page = other.Answer({"/api/run", "run=run", "localhost"});
  } while (json::parse(page.body, nullptr, false).contains("loading"));
  EXPECT_EQ(json::parse(page.body)["version"], version);
}

TEST_F(ChangedRunTest, AnOpenRunIsListedOnceInAWhileAndReadOnce) {
  Open();
  const int listed = library_.listed;
  for (int i = 0; i < 5; ++i) Open();
  EXPECT_EQ(library_.listed, listed) << "it was just read";
  clock_->Advance(std::chrono::seconds(3));
  for (int i = 0; i < 5; ++i) Open();
  EXPECT_EQ(library_.listed, listed + 1);
  EXPECT_EQ(library_.opened, 1);
}

TEST_F(ChangedRunTest, XprofsPageBeginsWithTheTracesThatAreThereThen) {
  const auto workers = [&] {
    return json::parse(viewer_.Answer({"/data/plugin/profile/hosts", "run=run", "localhost"}).body)
        .size();
  };
  EXPECT_EQ(workers(), 1u);
  library_.workers = 2;
  clock_->Advance(std::chrono::seconds(3));
  const std::string data = "/data/plugin/profile/data", tag = "run=run&tag=trace_viewer@";
  for (const char* more : {"&event_name=x&unique_id=0.0.0", "&start_time_ms=0.001"})
    EXPECT_EQ(viewer_.Answer({data, tag + more, "localhost"}).status, 200);
  EXPECT_EQ(library_.opened, 1) << "a page that shows the run already";
  EXPECT_EQ(workers(), 2u);
}

TEST_F(ChangedRunTest, AReportIsOfTheTracesThatAreThereThen) {
  const auto workers = [&] {
    for (;;) {
      const json answer =
          json::parse(viewer_.Answer({"/api/report", "run=run&make=always", "localhost"}).body);
      if (answer["state"] == "computed") return answer["report"]["workers"].size();
      EXPECT_THAT(answer["state"], testing::AnyOf("loading", "computing"));
    }
  };
  EXPECT_EQ(workers(), 1u);
  library_.workers = 2;
  clock_->Advance(std::chrono::seconds(3));
  EXPECT_EQ(workers(), 2u);
}

TEST_F(ChangedRunTest, AListingThatFailedWhenTheRunWasReadIsMadeUpFor) {
  library_.store = absl::UnavailableError("connection refused");
  EXPECT_EQ(Open()["workers"].size(), 1u);
  library_.workers = 2;
  clock_->Advance(std::chrono::seconds(3));
  EXPECT_EQ(Open()["workers"].size(), 1u);
  library_.store = absl::OkStatus();
  clock_->Advance(std::chrono::seconds(3));
  EXPECT_EQ(Open()["workers"].size(), 2u);
  clock_->Advance(std::chrono::seconds(3));
  Open();
  EXPECT_EQ(library_.opened, 2) << "read again only once";
}

TEST_F(ChangedRunTest, AStoreThatDoesNotAnswerKeepsNobodyFromWhatIsOpen) {
  Open();
  library_.workers = 2;
  library_.store = absl::UnavailableError("connection refused");
  clock_->Advance(std::chrono::seconds(3));
  EXPECT_EQ(Open()["workers"].size(), 1u);
}

}  // namespace
}  // namespace strobe::viewer
