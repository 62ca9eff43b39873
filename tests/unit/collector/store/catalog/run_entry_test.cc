#include "collector/store/catalog/run_entry.h"

#include <gmock/gmock.h>

namespace strobe::catalog {
namespace {

TEST(TimeOfRunName, ReadsTheTimeThatNamesBeginWith) {
  EXPECT_EQ(TimeOfRunName("2026_11_21_08_30_00_bench_1a2b"), 1'795'249'800'000'000'000);
  EXPECT_EQ(TimeOfRunName("1970_01_01_00_00_01"), 1'000'000'000);
  for (const char* other :
       {"", "bench", "2026_13_21_08_30_00", "2026_02_30_08_30_00", "2026_11_21_25_30_00",
        "2026-11-21-08-30-00", "2026_11_21_08_30", "9999_11_21_08_30_00"})
    EXPECT_EQ(TimeOfRunName(other), 0) << other;
}

TEST(EntryOf, TellsTheNamespaceOfARequest) {
  ManifestFacts facts{.request = "team/look", .instant_ns = 5};
  EXPECT_EQ(EntryOf("mine", {}, facts).ns, "team");
  EXPECT_EQ(EntryOf("mine", {}, facts).request, "look");
  EXPECT_EQ(EntryOf("mine", {}, facts).time_ns, 5);
  EXPECT_EQ(EntryOf("1970_01_01_00_00_01_mine", {}, facts).time_ns, 1'000'000'000)
      << "a manifest cannot put a run before others";
  for (const char* other : {"strobe capture on 2 workers", "<b>/look", "/look"}) {
    facts.request = other;
    EXPECT_EQ(EntryOf("mine", {}, facts).ns, "");
    EXPECT_EQ(EntryOf("mine", {}, facts).request, other);
  }
}

TEST(ComesBefore, IsByTimeThenByName) {
  EXPECT_TRUE(ComesBefore({2, "a", "x"}, {1, "b", "x"}));
  EXPECT_TRUE(ComesBefore({1, "b", "x"}, {1, "a", "x"}));
  EXPECT_TRUE(ComesBefore({1, "a", "x"}, {1, "a", "y"}));
  EXPECT_FALSE(ComesBefore({1, "a", "x"}, {1, "a", "x"}));
}

}  // namespace
}  // namespace strobe::catalog
