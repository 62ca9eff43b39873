#include "collector/trace/index/event_at.h"

#include <gtest/gtest.h>

#include <string>

#include "collector/trace/xplane/lanes.h"
#include "tests/fakes/made_index.h"

namespace strobe::index {
namespace {

TEST(EventAt, GivesTheBytesThatTheTraceHasThere) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 3; ++i) {
    host.AddEvent(host.EventId("work"), i * 1000, 10);
    // The second one is longer than 127 bytes, so that its length takes two.
    host.AddEventStat(host.StatId("text"), std::string_view(std::string(i == 1 ? 300 : 3, 'x')));
  }
  const MadeIndex made(host.Encode());
  ASSERT_TRUE(made.status.ok()) << made.status;
  const std::vector<xplane::Placed> events =
      *xplane::PlaceEvents(made.space.planes.at(0).lines.at(0));
  ASSERT_EQ(events.size(), 3u);
  for (std::uint64_t i = 0; i < events.size(); ++i) {
    const auto entry = made.index.EntryAt(made.index.tracks()[0], i);
    ASSERT_TRUE(entry.has_value());
    const auto bytes = EventAt(made.trace, 0, entry->offset);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, events[i].event.bytes);
    EXPECT_EQ(*EventAt(std::string_view(made.trace).substr(2), 2, entry->offset), *bytes);
  }
}

TEST(EventAt, RefusesPlacesOutside) {
  const std::string bytes("\x7f\x01", 2);
  for (const std::uint64_t place :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}})
    EXPECT_TRUE(absl::IsDataLoss(EventAt(bytes, 0, place).status())) << place;
  EXPECT_TRUE(absl::IsDataLoss(EventAt(bytes, 1, 1).status()));
  EXPECT_EQ(*EventAt(std::string("\x01x", 2), 0, 1), "x");
}

}  // namespace
}  // namespace strobe::index
