#include "collector/stall/flight_builder.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

DumpValue BuiltDict(std::vector<std::pair<const char*, DumpValue>> members) {
  DumpValue dict = DumpValue::Empty(DumpValue::Kind::kDict);
  for (auto& [key, value] : members) {
    dict.items.push_back(DumpValue::Text(key));
    dict.items.push_back(std::move(value));
  }
  return dict;
}

DumpValue BuiltEntry(const char* name, int pg_id = 0) {
  DumpValue group = DumpValue::Empty(DumpValue::Kind::kList);
  group.items = {DumpValue::Text(name), DumpValue::Text("TP")};
  return BuiltDict({{"process_group", std::move(group)},
                    {"collective_seq_id", DumpValue::Number(3)},
                    {"time_created_ns", DumpValue::Number(-7)},
                    {"pg_id", DumpValue::Number(pg_id)},
                    {"profiling_name", DumpValue::Text("nccl:all_reduce")},
                    {"state", DumpValue::Text("completed")}});
}

TEST(FlightBuilder, KeepsGroupsAndTextsOnce) {
  FlightBuilder builder;
  for (const char* name : {"1", "2", "1"}) EXPECT_TRUE(builder.AddEntry(BuiltEntry(name)).ok());
  const auto record = builder.Finish(BuiltDict({{"version", DumpValue::Text("2.10")}}));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->groups.size(), 2u);
  EXPECT_EQ(record->texts.size(), 2u);
  ASSERT_EQ(record->entries.size(), 3u);
  EXPECT_EQ(record->entries[0].group, record->entries[2].group);
  EXPECT_TRUE(record->entries[0].finished);
  EXPECT_EQ(record->entries[0].created_ns, 0);
}

TEST(FlightBuilder, KeepsTheNewestOfGroupsWithOneName) {
  FlightBuilder builder;
  for (const int pg_id : {0, 0, 4}) EXPECT_TRUE(builder.AddEntry(BuiltEntry("1", pg_id)).ok());
  EXPECT_TRUE(builder.AddEntry(BuiltEntry("2", 1)).ok());
  const auto record = builder.Finish(BuiltDict({{"version", DumpValue::Text("2.10")}}));
  ASSERT_EQ(record->entries.size(), 2u);
  EXPECT_EQ(record->entries[0].pg_id, 4);
  EXPECT_EQ(record->entries[1].pg_id, 1);
}

TEST(FlightBuilder, KnowsAnEntryByItsMembers) {
  EXPECT_TRUE(FlightBuilder::IsEntry(BuiltEntry("1")));
  EXPECT_FALSE(FlightBuilder::IsEntry(BuiltDict({{"version", DumpValue::Text("2.10")}})));
  EXPECT_FALSE(FlightBuilder::IsEntry(DumpValue::Number(1)));
}

TEST(FlightBuilder, BoundsTheEntries) {
  FlightBuilder builder;
  const DumpValue entry = BuiltEntry("1");
  for (std::size_t i = 0; i < kMaxEntries; ++i) ASSERT_TRUE(builder.AddEntry(entry).ok());
  EXPECT_THAT(MessageOf(builder.AddEntry(entry)), testing::HasSubstr("more than 100000 entries"));
}

TEST(FlightBuilder, BoundsTheTexts) {
  FlightBuilder builder;
  const std::string tail(2000, 'x');
  absl::Status added;
  int entries = 0;
  while (added.ok() && ++entries < 10'000)
    added = builder.AddEntry(BuiltEntry(StrCat(entries, tail).c_str()));
  EXPECT_THAT(MessageOf(added), testing::HasSubstr("more than 4 MiB"));
  EXPECT_GT(entries, 6000) << "each keeps 600 bytes";
}

TEST(FlightBuilder, BoundsTheRanksThatGroupsRepeat) {
  const std::string ranks(1'000'000, '1');
  DumpValue groups = DumpValue::Empty(DumpValue::Kind::kDict);
  for (int i = 0; i < 10; ++i) {
    groups.items.push_back(DumpValue::Text("0"));
    groups.items.push_back(BuiltDict({{"name", DumpValue::Text("1")},
                                      {"desc", DumpValue::Text("TP")},
                                      {"ranks", DumpValue::Text(ranks)}}));
  }
  const auto record = FlightBuilder().Finish(
      BuiltDict({{"version", DumpValue::Text("2.10")}, {"pg_config", std::move(groups)}}));
  EXPECT_THAT(MessageOf(record.status()), testing::HasSubstr("more than 4 MiB"));
}

// A dump may have one long text, and name it again and again.
TEST(FlightBuilder, LooksAtTheBeginOfLongTextsOnly) {
  const std::string path = std::string(10'000'000, 'x') + "/torch/", digits(10'000'000, '0');
  DumpValue frames = DumpValue::Empty(DumpValue::Kind::kList);
  frames.items.push_back(BuiltDict({{"filename", DumpValue::Text(path)},
                                    {"name", DumpValue::Text("step")},
                                    {"line", DumpValue::Number(7)}}));
  DumpValue entry = BuiltEntry("1");
  entry.items.push_back(DumpValue::Text("frames"));
  entry.items.push_back(std::move(frames));
  entry.items[3] = DumpValue::Text(digits);
  FlightBuilder builder;
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(builder.AddEntry(entry).ok());
  const auto record = builder.Finish(BuiltDict({{"version", DumpValue::Text("2.10")}}));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->entries[0].seq, 0);
  EXPECT_EQ(record->site(record->entries[0]), std::string(600, 'x'));
}

TEST(RanksOfText, TakesNumbersThatCanBeRanks) {
  EXPECT_EQ(RanksOfText("[0, 1, 5]"), (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(RanksOfText("[5,1,1, -3, 99999999999, x7]"), (std::vector<int>{1, 5, 7}));
  EXPECT_TRUE(RanksOfText("").empty());
}

}  // namespace
}  // namespace strobe::stall
