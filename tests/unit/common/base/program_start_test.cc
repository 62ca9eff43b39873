#include "common/base/program_start.h"

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

TEST(OccupyClosedStreams, NoFileTakesTheNumberOfAClosedStream) {
  const int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(STDIN_FILENO);
  OccupyClosedStreams();
  const int opened = open("/dev/null", O_RDONLY);
  EXPECT_GT(opened, STDERR_FILENO);
  char byte = 0;
  EXPECT_EQ(read(STDIN_FILENO, &byte, 1), -1) << "nothing can be read from it";
  if (opened > STDERR_FILENO) close(opened);
  if (kept >= 0) {
    dup2(kept, STDIN_FILENO);
    close(kept);
  }
}

}  // namespace
}  // namespace strobe
