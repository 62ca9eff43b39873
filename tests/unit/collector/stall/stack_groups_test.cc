#include "collector/stall/stack_groups.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collector/stall/evidence_files.h"
#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

TEST(StackGroups, HaveTheOddOneFirst) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  JobEvidence evidence;
  for (const auto& [name, bytes] : cases.at("w4_gil"))
    EXPECT_TRUE(AddEvidence(name, bytes, evidence).ok()) << name;
  const std::vector<StackGroup> groups = GroupStacks(evidence, /*all_threads=*/false);
  ASSERT_GE(groups.size(), 2u);
  EXPECT_EQ(groups[0].ranks.size(), 1u);
  std::size_t ranks = 0;
  bool found = false;
  for (const StackGroup& group : groups) {
    EXPECT_EQ(group.thread, "main");
    EXPECT_TRUE(group.moved.empty());
    ranks += group.ranks.size();
    if (group.ranks != std::vector<int>{2}) continue;
    found = true;
    EXPECT_EQ(group.keep_gil, (std::vector<int>{2}));
    EXPECT_EQ(group.frames[0].name, "train.<locals>.culprit_gil");
  }
  EXPECT_EQ(ranks, 4u);
  EXPECT_TRUE(found);
  EXPECT_THAT(StackGroupsText(groups, 4),
              testing::HasSubstr("rank 2 (1 of 4), Python's lock: all\n"
                                 "  /app/job.py:39 in train.<locals>.culprit_gil\n"));
  const auto json = nlohmann::json::parse(StackGroupsJson(groups, -1));
  EXPECT_EQ(json.size(), groups.size());
  EXPECT_EQ(json[0]["thread"], "main");

  const std::vector<StackGroup> all = GroupStacks(evidence, /*all_threads=*/true);
  EXPECT_GT(all.size(), groups.size());
  EXPECT_EQ(all[0].thread, "main");
  EXPECT_EQ(all.back().thread, "python");
}

TEST(StackGroups, SayWhoMoved) {
  JobEvidence evidence;
  const auto stacks = [](int line) {
    StackDump dump;
    dump.threads.push_back({.id = 1, .frames = {{.file = "a.py", .line = line, .name = "f"}}});
    return dump;
  };
  for (int rank = 0; rank < 3; ++rank) {
    evidence.ranks[rank].stacks = stacks(1);
    evidence.ranks[rank].stacks_later = stacks(rank == 1 ? 2 : 1);
  }
  const std::vector<StackGroup> groups = GroupStacks(evidence, /*all_threads=*/false);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].moved, (std::vector<int>{1}));
  EXPECT_THAT(StackGroupsText(groups, 3), testing::StartsWith("ranks 0-2 (3 of 3), moved: 1\n"));
}

}  // namespace
}  // namespace strobe::stall
