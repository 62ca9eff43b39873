#include "common/protocol/process_role.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strobe {
namespace {

struct RoleRow {
  std::string text{};
  const std::string& role() const { return text; }
};

TEST(ProcessWithRole, IsTheFirstUnlessProcessesDiffer) {
  const std::vector<RoleRow> agreed = {{""}, {"rollout"}, {"rollout"}};
  EXPECT_EQ(ProcessWithRole(agreed), &agreed[1]);
  EXPECT_EQ(ProcessWithRole(std::vector<RoleRow>{{"rollout"}, {"actor"}}), nullptr);
  EXPECT_EQ(ProcessWithRole(std::vector<RoleRow>{{""}}), nullptr);
}

}  // namespace
}  // namespace strobe
