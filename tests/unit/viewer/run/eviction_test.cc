#include "viewer/run/eviction.h"

#include <gtest/gtest.h>

namespace strobe::viewer {
namespace {

struct Kept {
  std::string name;
  Askers askers{};
};

Kept KeptFor(const std::string& name, const std::vector<std::string>& askers) {
  Kept kept{name};
  for (const std::string& asker : askers) kept.askers.Note(asker);
  return kept;
}

std::string Evicted(std::vector<Kept> kept, const std::string& asker) {
  const auto place = ChooseEvicted(kept, asker, [](const Kept& one) { return one.name != "busy"; });
  return place == kept.end() ? "" : place->name;
}

// Regression: who opened nine runs in turn evicted those of all others.
TEST(ChooseEvicted, WhoAsksForMuchEvictsWhatIsTheirs) {
  const std::vector<Kept> kept = {KeptFor("bob's", {"bob"}), KeptFor("first", {"mallory"}),
                                  KeptFor("second", {"mallory"}),
                                  KeptFor("ours", {"mallory", "bob"})};
  EXPECT_EQ(Evicted(kept, "mallory"), "first");
  EXPECT_EQ(Evicted(kept, "bob"), "bob's");
}

TEST(ChooseEvicted, WhoHasNothingTakesTheRoomOfWhoHasMost) {
  const std::vector<Kept> kept = {KeptFor("bob's", {"bob"}), KeptFor("busy", {"mallory"}),
                                  KeptFor("first", {"mallory"}), KeptFor("second", {"mallory"})};
  EXPECT_EQ(Evicted(kept, "zoe"), "first") << "bob's was asked for longest ago";
  EXPECT_EQ(Evicted({KeptFor("a", {"bob", "zoe"}), KeptFor("b", {"bob"})}, "eve"), "a");
}

TEST(ChooseEvicted, WhatMayNotGoStays) {
  EXPECT_EQ(Evicted({KeptFor("busy", {"bob"})}, "bob"), "");
  EXPECT_EQ(Evicted({}, "bob"), "");
}

}  // namespace
}  // namespace strobe::viewer
