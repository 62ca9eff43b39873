// The largest file that this process may write. POSIX only.
#pragma once
#include <sys/resource.h>

#include <cstdint>

namespace strobe::wire {

// False if a file must not have `size` bytes (RLIMIT_FSIZE). Writing beyond the limit raises
// SIGXFSZ, which ends programs that do not ignore it, so ask before.
inline bool FileMayHave(std::uint64_t size) {
  rlimit most = {};
  return getrlimit(RLIMIT_FSIZE, &most) != 0 || size <= most.rlim_cur;
}

}  // namespace strobe::wire
