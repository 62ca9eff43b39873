// What programs do before anything else.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

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

// A file that is opened while a standard stream is closed would take the stream's number, and what
// is printed would be written into it. These take the number, and refuse what is printed.
inline void OccupyClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace strobe
