#include "common/protocol/trainer_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace strobe {
namespace {

TEST(TrainerChanges, AreKnownByTheirWholeNames) {
  for (const std::string_view name : kTrainerChanges) {
    EXPECT_TRUE(IsTrainerChange(name)) << name;
    EXPECT_FALSE(IsTrainerChange(name.substr(1))) << name;
    EXPECT_FALSE(IsTrainerChange(std::string(name) + " ")) << name;
  }
  EXPECT_FALSE(IsTrainerChange(""));
  EXPECT_FALSE(IsTrainerChange("none")) << "it is the annotation's word for no change at all";
}

// They are written into an annotation, a YAML list and an environment variable.
TEST(TrainerChanges, AreWordsThatNeedNoQuotes) {
  for (const std::string_view name : kTrainerChanges)
    EXPECT_TRUE(std::ranges::all_of(name, [](char c) {
      return c == '-' || (c >= 'a' && c <= 'z');
    })) << name;
}

}  // namespace
}  // namespace strobe
