#include "collector/trace/kineto/names.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace strobe::kineto {
namespace {

std::string Encode(PlaneNames& names) {
  const std::uint64_t size = names.EncodedSize();
  std::string all;
  names.Drain([&](std::string_view piece) { all += piece; });
  EXPECT_EQ(all.size(), size);
  return all;
}

}  // namespace

TEST(NameTable, KeepsEachTextOnce) {
  NameTable table;
  std::set<std::uint32_t> ids;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 10'000; ++i)
      ids.insert(table.Id(std::string(i % 40, 'x') + std::to_string(i)));
  }
  EXPECT_EQ(ids.size(), 10'000u);
  EXPECT_EQ(table.Text(table.Id("xxx3")), "xxx3");
  EXPECT_EQ(table.Id(""), table.Id(""));
}

TEST(NameTable, IsBounded) {
  NameTable table;
  const std::string large(NameTable::kMaxBytes / 2, 'x');
  EXPECT_NE(table.Id(large), 0u);
  EXPECT_EQ(table.Id(large + large), 0u);
  EXPECT_NE(table.Id(large), 0u) << "what is in the table is still found";
  NameTable many;
  for (std::size_t i = 0; i < NameTable::kMaxNames; ++i) ASSERT_NE(many.Id(std::to_string(i)), 0u);
  EXPECT_EQ(many.Id("one more"), 0u);
  EXPECT_NE(many.Id("17"), 0u);
}

TEST(PlaneNames, WritesTheNamesThatThePlaneUses) {
  NameTable table;
  PlaneNames one(table), other(table);
  const std::int64_t event = one.EventId("aten::mm");
  EXPECT_EQ(other.StatId("aten::mm"), event) << "one table for all";
  EXPECT_NE(Encode(one).find("aten::mm"), std::string::npos);
  PlaneNames none(table);
  EXPECT_EQ(Encode(none), "");
}

TEST(PlaneNames, NamesThatAreNotInTheTableGetIdsOfTheirOwn) {
  NameTable table;
  const std::string large(NameTable::kMaxBytes, 'x');
  table.Id(large);
  PlaneNames one(table), other(table);
  const std::int64_t a = one.EventId("a"), b = other.EventId("b");
  EXPECT_NE(a, b) << "so that planes can be joined";
  EXPECT_EQ(one.RefId("text"), 0) << "a text is stored with its event";
  one.Take(other);
  const std::string all = Encode(one);
  EXPECT_NE(all.find('a'), std::string::npos);
  EXPECT_NE(all.find('b'), std::string::npos);
  EXPECT_EQ(Encode(other), "");
}

}  // namespace strobe::kineto
