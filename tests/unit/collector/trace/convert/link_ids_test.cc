#include "collector/trace/convert/link_ids.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/fakes/json_trace.h"

namespace strobe::convert {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using Json = nlohmann::json;

// A launch of a graph: its kernels all have the launch's correlation id.
std::vector<Json> GraphLaunch(std::string_view launch, int id, double at, int kernels,
                              int device = 0) {
  std::vector<Json> events = {
      SpanEvent("cuda_runtime", launch, 900, 900, at, 10, {{"correlation", id}}),
      FlowEvent("s", id, 900, 900, at)};
  for (int i = 0; i < kernels; ++i) {
    const double begin = at + 100 * (i + 1);
    events.push_back(
        SpanEvent("kernel", StrCat("k", i), device, 7, begin, 50,
                  {{"device", device}, {"stream", 7}, {"correlation", id}, {"graph id", 3}}));
    events.push_back(FlowEvent("f", id, device, 7, begin));
  }
  return events;
}

TEST(LinkIds, EachKernelOfAGraphHasAnArrowFromItsLaunch) {
  for (const std::string_view launch : {"cudaGraphLaunch", "hipGraphLaunch"}) {
    const JsonTrace trace = JsonTrace::Of(GraphLaunch(launch, 7, 5e9, 5));
    std::vector<std::string> expected;
    for (int i = 0; i < 5; ++i) expected.push_back(StrCat(launch, " > k", i));
    EXPECT_EQ(trace.Arrows(), expected);
    EXPECT_EQ(trace.ExportedArrows(), expected);
  }
}

// Flows other than correlation ids: one begin and several ends.
TEST(LinkIds, OneBeginOfAFlowMayHaveSeveralEnds) {
  std::vector<Json> events = {SpanEvent("", "from", 1, 1, 0, 10), FlowEvent("s", 4, 1, 1, 1, "c")};
  for (int i = 0; i < 3; ++i) {
    events.push_back(SpanEvent("", StrCat("to ", i), 1, 2, 20 + 10 * i, 5));
    events.push_back(FlowEvent("f", 4, 1, 2, 21 + 10 * i, "c"));
  }
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_THAT(trace.Arrows(), ElementsAre("from > to 0", "from > to 1", "from > to 2"));
  EXPECT_EQ(trace.ExportedArrows(), trace.Arrows());
}

// A program that counts anew: each kernel belongs to the launch before it.
TEST(LinkIds, AnIdThatIsUsedAgainBelongsToTheLaunchBefore) {
  std::vector<Json> events = GraphLaunch("first", 7, 5e9, 3);
  for (const Json& event : GraphLaunch("second", 7, 5e9 + 5000, 2)) events.push_back(event);
  const std::vector<std::string> expected = {"first > k0", "first > k1", "first > k2",
                                             "second > k0", "second > k1"};
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    const JsonTrace trace = JsonTrace::Of(events);
    ASSERT_EQ(trace.Arrows(), expected);
    ASSERT_EQ(trace.ExportedArrows(), expected);
    std::shuffle(events.begin(), events.end(), random);
  }
}

// Random launches and kernels of a process: what is exported is what the viewer shows.
TEST(LinkIds, AllReadersShowTheSameArrows) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<Json> events;
    for (int i = 0; i < 40; ++i) {
      const int id = static_cast<int>(random() % 12), at = static_cast<int>(random() % 10'000);
      if (random() % 3 == 0)
        events.push_back(SpanEvent("cuda_runtime", StrCat("launch ", i), 900,
                                   static_cast<int>(random() % 3), at, 5, {{"correlation", id}}));
      else
        events.push_back(SpanEvent("kernel", StrCat("work ", i), 0, static_cast<int>(random() % 3),
                                   at, 5, {{"device", 0}, {"correlation", id}}));
    }
    const JsonTrace trace = JsonTrace::Of(events);
    ASSERT_EQ(trace.ExportedArrows(), trace.Arrows()) << round;
  }
}

TEST(LinkIds, ManyKernelsOfOneLaunchTakeNoTimeOfASquare) {
  xplane::PlaneBuilder host("/host:CPU"), gpu("/device:GPU:0", 1);
  constexpr int kMany = 200'000;
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 1000; ++i) {
    host.AddEvent(host.EventId("launch"), i, 1);
    host.AddEventStat(host.StatId("correlation_id"), std::int64_t{7});
  }
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (std::int64_t i = 0; i < kMany; ++i) {
    gpu.AddEvent(gpu.EventId("work"), 2000 + i * 10, 5);
    gpu.AddEventStat(gpu.StatId("correlation_id"), std::int64_t{7});
  }
  const std::string bytes = host.Encode() + gpu.Encode();
  const xplane::Space space = *xplane::Space::Read(bytes);
  const absl::StatusOr<LinkIds> links = LinkIds::Of(space, 0);
  ASSERT_TRUE(links.ok()) << links.status();
  std::set<std::uint64_t> ids;
  std::size_t ins = 0;
  for (const xplane::Plane& plane : space.planes) {
    const xplane::FlowReader flows(plane);
    for (const xplane::Line& line : plane.lines) {
      ASSERT_TRUE(ForEachEvent(line, [&](const xplane::Event& event) {
                    (void)links->Read(flows, event, [&](std::uint64_t id, bool incoming) {
                      if (!incoming) return;
                      ++ins;
                      ids.insert(id);
                    });
                  }).ok());
    }
  }
  EXPECT_EQ(ins, std::size_t{kMany});
  EXPECT_EQ(ids.size(), std::size_t{kMany}) << "each arrow has an id of its own";
}

}  // namespace
}  // namespace strobe::convert
