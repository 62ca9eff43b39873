#include "common/base/standard_streams.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

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
