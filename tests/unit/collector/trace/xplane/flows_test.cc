#include "collector/trace/xplane/flows.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "collector/trace/xplane/builder.h"

namespace strobe::xplane {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using FlowEnds = std::vector<std::pair<std::uint64_t, bool>>;  // Id, and whether it is incoming.

// The ends of arrows of a plane with one event that has these stats.
FlowEnds EndsOf(std::string_view plane_name,
                const std::vector<std::pair<std::string_view, std::int64_t>>& stats,
                std::size_t trace = 0) {
  PlaneBuilder plane(plane_name);
  plane.BeginLine(1, "line", 0);
  plane.AddEvent(plane.EventId("event"), 0, 1);
  for (const auto& [name, value] : stats) plane.AddEventStat(plane.StatId(name), value);
  const std::string bytes = plane.Encode();
  const Space space = *Space::Read(bytes);
  const FlowReader flows(space.planes[0], trace);
  FlowEnds ends;
  EXPECT_TRUE(ForEachEvent(space.planes[0].lines[0], [&](const Event& event) {
                EXPECT_TRUE(
                    flows
                        .Read(event, [&](std::uint64_t id,
                                         bool incoming) { ends.emplace_back(id, incoming); })
                        .ok());
              }).ok());
  return ends;
}

TEST(ProcessOf, IsTheSameForAllPlanesOfAProcess) {
  EXPECT_EQ(ProcessOf("/host:CPU"), 0u);
  EXPECT_EQ(ProcessOf("/host:CPU [a"), 0u);
  EXPECT_EQ(ProcessOf("/host:CPU [a]"), ProcessOf("/device:GPU:0 [a]"));
  EXPECT_NE(ProcessOf("/host:CPU [a]"), ProcessOf("/host:CPU [b]"));
  // Process a of two workers, and two processes of worker w.
  EXPECT_EQ(ProcessOf("/host:CPU [a] [w]"), ProcessOf("/device:GPU:0 [a] [w]"));
  EXPECT_NE(ProcessOf("/host:CPU [a] [w]"), ProcessOf("/host:CPU [a] [v]"));
  EXPECT_NE(ProcessOf("/host:CPU [a] [w]"), ProcessOf("/host:CPU [b] [w]"));
}

TEST(FlowReader, KnowsThreeConventions) {
  const FlowEnds producer = EndsOf("/host:CPU", {{"_pt", 15}, {"_p", 42}});
  const FlowEnds consumer = EndsOf("/host:CPU", {{"_ct", 15}, {"_c", 42}});
  EXPECT_THAT(producer, ElementsAre(std::pair(FlowId(15, 42), false)));
  EXPECT_THAT(consumer, ElementsAre(std::pair(FlowId(15, 42), true)));
  const FlowEnds both = EndsOf("/host:CPU", {{"flow", 42 << 2 | 3}});
  const std::uint64_t flow = 42 | std::uint64_t{1} << 63;
  EXPECT_THAT(both, ElementsAre(std::pair(flow, true), std::pair(flow, false)));
  const FlowEnds launch = EndsOf("/host:CPU", {{"correlation_id", 42}});
  const FlowEnds kernel = EndsOf("/device:GPU:0", {{"correlation_id", 42}});
  EXPECT_THAT(launch, ElementsAre(std::pair(FlowId(9, 42), false)));
  EXPECT_THAT(kernel, ElementsAre(std::pair(FlowId(9, 42), true)));
  EXPECT_THAT(EndsOf("/host:CPU", {{"correlation_id", 0}, {"other", 42}}), IsEmpty());
}

TEST(FlowReader, IdsOfProcessesAndTracesDiffer) {
  for (const std::string_view name : {"_p", "_c", "correlation_id", "flow"}) {
    const std::vector<std::pair<std::string_view, std::int64_t>> stats = {{name, 42 << 2 | 1}};
    const std::uint64_t id = EndsOf("/host:CPU [a]", stats)[0].first;
    EXPECT_EQ(EndsOf("/device:GPU:0 [a]", stats)[0].first, id) << name;
    EXPECT_NE(EndsOf("/host:CPU [b]", stats)[0].first, id) << name;
    EXPECT_NE(EndsOf("/host:CPU", stats)[0].first, id) << name;
    EXPECT_NE(EndsOf("/host:CPU [a]", stats, 1)[0].first, id) << name;
    EXPECT_EQ(EndsOf("/host:CPU [a]", stats, 1)[0].first,
              EndsOf("/device:GPU:0 [a]", stats, 1)[0].first);
  }
}

}  // namespace
}  // namespace strobe::xplane
