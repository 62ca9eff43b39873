#include "agent/wire/cgroup_memory.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace strobe::wire {
namespace {

namespace fs = std::filesystem;

// A root directory with the files of the kernel's cgroup file system.
class CgroupMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void Second(const std::string& group, const std::string& limit, long used, long inactive) {
    const std::string at = "sys/fs/cgroup" + group + "/memory.";
    Write(at + "max", limit + "\n");
    Write(at + "current", std::to_string(used) + "\n");
    Write(at + "stat", "anon 1\nfile 2\nactive_file 7\ninactive_file " + std::to_string(inactive) +
                           "\nunevictable 0\n");
  }
  MemoryUse Use() { return ReadMemoryUse(root_.c_str()); }

  fs::path root_;
};

TEST_F(CgroupMemoryTest, VersionTwoWithoutCacheThatCanBeDropped) {
  Write("proc/self/cgroup", "0::/\n");
  Second("", "1000", 700, 200);
  EXPECT_EQ(Use().used, 500u);
  EXPECT_EQ(Use().limit, 1000u);
}

TEST_F(CgroupMemoryTest, NoLimitIsNone) {
  Write("proc/self/cgroup", "0::/\n");
  Second("", "max", 700, 200);
  EXPECT_EQ(Use().limit, 0u);
}

TEST_F(CgroupMemoryTest, TheGroupNearestToItsLimitCounts) {
  Write("proc/self/cgroup", "0::/job/step/task\n");
  Second("/job/step/task", "max", 10, 0);
  Second("/job/step", "1000", 100, 0);
  Second("/job", "500", 400, 0);
  EXPECT_EQ(Use().used, 400u);
  EXPECT_EQ(Use().limit, 500u);
}

TEST_F(CgroupMemoryTest, AContainerSeesItsOwnGroupAtTheMountUnderAnotherName) {
  Write("proc/self/cgroup", "0::/kubepods/pod1/c1\n");
  Second("", "1000", 900, 0);
  EXPECT_EQ(Use().used, 900u);
}

TEST_F(CgroupMemoryTest, VersionOneBesideAnEmptyVersionTwo) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/group\n0::/\n");
  const std::string at = "sys/fs/cgroup/memory/group/memory.";
  Write(at + "limit_in_bytes", "4096000\n");
  Write(at + "usage_in_bytes", "3000000\n");
  Write(at + "stat", "inactive_file 5\ntotal_inactive_file 1000000\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "99999999\n");
  EXPECT_EQ(Use().used, 2'000'000u);
  EXPECT_EQ(Use().limit, 4'096'000u);
}

TEST_F(CgroupMemoryTest, WhatCannotBeReadOrMakesNoSenseIsNoLimit) {
  EXPECT_EQ(Use().limit, 0u);
  for (const char* text :
       {"", "\n", "0", "0:", "0::", "x:memory", "4:memory:", "::::\n0::/a/b//\n"}) {
    Write("proc/self/cgroup", text);
    EXPECT_EQ(Use().limit, 0u) << text;
  }
  Write("proc/self/cgroup", "0::/" + std::string(5000, 'x') + "\n");
  EXPECT_EQ(Use().limit, 0u);
  Write("proc/self/cgroup", "0::/\n");
  Second("", "garbage", 1, 0);
  EXPECT_EQ(Use().limit, 0u);
  Second("", "0", 1, 0);
  EXPECT_EQ(Use().limit, 0u);
  Second("", "100", 10, 5000);
  EXPECT_EQ(Use().used, 0u) << "more cache than use";
}

TEST(CgroupMemory, ThisProcessMayHaveALimit) {
  const MemoryUse use = ReadMemoryUse();
  EXPECT_TRUE(use.limit == 0 || use.used > 0);
}

}  // namespace
}  // namespace strobe::wire
