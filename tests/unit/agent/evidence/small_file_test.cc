#include "agent/evidence/small_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace strobe::agent {
namespace {

TEST(SmallFile, ReplacesAndLeavesNothingElse) {
  std::string directory = testing::TempDir() + "small_file_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  EXPECT_TRUE(WriteSmallFile(directory, "7-1.a.stacks", "one"));
  EXPECT_TRUE(WriteSmallFile(directory, "7-1.a.stacks", "two"));
  std::ifstream file(directory + "/7-1.a.stacks");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "two");
  const std::filesystem::directory_iterator entries(directory);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  std::filesystem::remove_all(directory);
  EXPECT_FALSE(WriteSmallFile(directory, "7-1.a.stacks", "three"));
}

}  // namespace
}  // namespace strobe::agent
