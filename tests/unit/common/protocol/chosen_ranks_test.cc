#include "common/protocol/chosen_ranks.h"

#include <gtest/gtest.h>

#include <vector>

namespace strobe {
namespace {

TEST(ChosenRanks, EmptyListsChooseAll) {
  const ChosenRanks all;
  EXPECT_TRUE(all.all());
  EXPECT_TRUE(all.Has(std::nullopt, 3));
  EXPECT_TRUE(all.Has(7, 3));
}

TEST(ChosenRanks, BothListsMustHaveTheProcess) {
  const std::vector<std::uint32_t> ranks{8, 9}, local_ranks{1};
  const ChosenRanks chosen{ranks, local_ranks};
  EXPECT_FALSE(chosen.all());
  EXPECT_TRUE(chosen.Has(9, 1));
  EXPECT_FALSE(chosen.Has(9, 0));
  EXPECT_FALSE(chosen.Has(1, 1));
  EXPECT_FALSE(chosen.Has(std::nullopt, 1)) << "its rank in the job is not known";
  EXPECT_FALSE(chosen.Has(9, std::nullopt)) << "its local rank is not known";
  EXPECT_TRUE((ChosenRanks{{}, local_ranks}).Has(std::nullopt, 1));
}

}  // namespace
}  // namespace strobe
