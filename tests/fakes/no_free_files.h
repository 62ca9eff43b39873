// A process that cannot open another file.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace strobe {

// While this object lives, whatever needs a new file descriptor fails with EMFILE.
class NoFreeFiles {
 public:
  NoFreeFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest_free = dup(STDERR_FILENO);
    EXPECT_GT(lowest_free, 0);
    close(lowest_free);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest_free);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFreeFiles() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoFreeFiles(const NoFreeFiles&) = delete;
  NoFreeFiles& operator=(const NoFreeFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace strobe
