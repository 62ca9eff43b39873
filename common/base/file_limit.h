// The limit on open files.
#pragma once
#include <sys/resource.h>

#include <algorithm>

namespace strobe {

// Raises the process's limit as far as it is allowed to, as Go's programs do. Container runtimes
// start programs with 1024, because some old ones cannot use more, and the operator needs a
// connection for each worker of a capture.
inline void RaiseFileLimit() {
  constexpr rlim_t kMaxFiles = rlim_t{1}
                               << 20;  // Some systems have no limit, and tables grow with it.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t most = std::min(limit.rlim_max, kMaxFiles);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace strobe
