#include "common/base/file_limit.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(FileLimit, IsRaisedAsFarAsAllowed) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  RaiseFileLimit();
  rlimit raised{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(raised.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
}

}  // namespace
}  // namespace strobe
