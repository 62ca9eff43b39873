#include "common/memory/foreign_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace strobe {
namespace {

constexpr std::size_t kPages = 4;

class ForeignMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "foreign_XXXXXX";
    fd_ = mkstemp(name.data());
    ASSERT_GE(fd_, 0);
    unlink(name.c_str());
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(kPages * page_)), 0);
    ASSERT_EQ(pwrite(fd_, "x", 1, 0), 1);
    void* data = mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    ASSERT_NE(data, MAP_FAILED);
    data_ = static_cast<volatile char*>(data);
  }
  void TearDown() override {
    munmap(const_cast<char*>(data_), kPages * page_);
    close(fd_);
  }

  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  int fd_ = -1;
  volatile char* data_ = nullptr;
};

TEST_F(ForeignMemoryTest, PagesThatAreCutOffReadAsZerosAndAreTold) {
  const auto memory = ForeignMemory::Guard(const_cast<char*>(data_), kPages * page_, true);
  ASSERT_TRUE(memory.ok());
  ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(page_)), 0);
  EXPECT_EQ(data_[0], 'x');
  EXPECT_FALSE(memory->damaged());
  EXPECT_EQ(data_[2 * page_ + 5], 0);
  EXPECT_TRUE(memory->damaged());
  data_[3 * page_] = 'y';
  EXPECT_EQ(data_[3 * page_], 'y') << "writing goes on too";
}

TEST_F(ForeignMemoryTest, AGuardMovesAndASlotIsUsedAgain) {
  auto first = ForeignMemory::Guard(const_cast<char*>(data_), kPages * page_, false);
  ASSERT_TRUE(first.ok());
  ForeignMemory moved = *std::move(first);
  ASSERT_EQ(ftruncate(fd_, 0), 0);
  EXPECT_EQ(data_[0], 0);
  EXPECT_TRUE(moved.damaged());
  moved = ForeignMemory();
  for (int i = 0; i < 10'000; ++i)
    ASSERT_TRUE(ForeignMemory::Guard(const_cast<char*>(data_), page_, false).ok());
}

TEST_F(ForeignMemoryTest, WhatIsNotGuardedEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto other = ForeignMemory::Guard(const_cast<char*>(data_), page_, false);
        if (ftruncate(fd_, 0) == 0) data_[page_] = 1;
        _exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
}

}  // namespace
}  // namespace strobe
