#include "collector/trace/xplane/builder.h"

#include <gtest/gtest.h>

#include "tensorflow/xplane.pb.h"

namespace strobe::xplane {
namespace {

TEST(PlaneBuilder, WritesWhatProtobufReads) {
  PlaneBuilder builder("/host:CPU");
  builder.BeginLine(7, "main/7", 1000);
  builder.AddEvent(builder.EventId("step"), 5, 10);
  builder.AddEventStat(builder.StatId("n"), std::int64_t{-3});
  builder.AddEventStat(builder.StatId("file"), Ref{"shard"});
  builder.AddEvent(builder.EventId("other"), 20, 0);
  builder.BeginLine(8, "two/8", 1000);
  builder.AddEvent(builder.EventId("step"), 6, 11);
  builder.AddEventStat(builder.StatId("x"), 0.5);
  builder.AddEventStat(builder.StatId("text"), std::string_view("free"));
  builder.AddPlaneStat("count", std::uint64_t{1} << 63);

  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(builder.Encode()));
  ASSERT_EQ(space.planes_size(), 1);
  const auto& plane = space.planes(0);
  EXPECT_EQ(plane.name(), "/host:CPU");
  ASSERT_EQ(plane.lines_size(), 2);
  const auto& line = plane.lines(0);
  EXPECT_EQ(line.id(), 7);
  EXPECT_EQ(line.name(), "main/7");
  EXPECT_EQ(line.timestamp_ns(), 1000);
  ASSERT_EQ(line.events_size(), 2);
  const auto& step = line.events(0);
  EXPECT_EQ(plane.event_metadata().at(step.metadata_id()).name(), "step");
  EXPECT_EQ(step.metadata_id(), plane.lines(1).events(0).metadata_id()) << "kept once";
  EXPECT_EQ(step.offset_ps(), 5);
  EXPECT_EQ(step.duration_ps(), 10);
  EXPECT_EQ(step.stats(0).int64_value(), -3);
  const auto shard = static_cast<std::int64_t>(step.stats(1).ref_value());
  EXPECT_EQ(plane.stat_metadata().at(shard).name(), "shard");
  EXPECT_EQ(plane.lines(1).events(0).stats(0).double_value(), 0.5);
  EXPECT_EQ(plane.lines(1).events(0).stats(1).str_value(), "free");
  EXPECT_EQ(plane.stats(0).uint64_value(), std::uint64_t{1} << 63);
}

TEST(TypedValue, IsWhatXlaMakesOfText) {
  EXPECT_EQ(std::get<std::int64_t>(TypedValue("-12")), -12);
  EXPECT_EQ(std::get<std::uint64_t>(TypedValue("18446744073709551615")), ~std::uint64_t{0});
  EXPECT_EQ(std::get<double>(TypedValue("1.5")), 1.5);
  EXPECT_EQ(std::get<Ref>(TypedValue("12x")).text, "12x");
  EXPECT_EQ(std::get<Ref>(TypedValue("")).text, "");
}

// Protobuf refuses a whole trace because of one invalid name.
TEST(PlaneBuilder, TextThatIsNoUtf8StaysReadable) {
  PlaneBuilder plane("plane \xff");
  plane.BeginLine(1, "line \xe2\x82", 0);
  plane.AddEvent(plane.EventId("name \xf0\x9f"), 1, 2);
  plane.AddEventStat(plane.StatId("key \xc3"), Ref{"value \xed\xa0\x80"});
  plane.AddEventStat(plane.StatId("text"), std::string_view("\x80"));
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(plane.Encode()));
  EXPECT_EQ(space.planes(0).name(), "plane \xef\xbf\xbd");
  EXPECT_EQ(space.planes(0).lines(0).name(), "line \xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace strobe::xplane
