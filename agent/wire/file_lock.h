// Locks on single bytes of a file, by which processes in several containers detect each other.
// POSIX only.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>

#include <cstdint>

namespace strobe::wire {

// A description of a lock on one byte, for open-file-description locks. Such a lock belongs to the
// open file: closing another descriptor of the same file does not release it, closing the last
// descriptor of this open file does.
inline struct flock ByteLock(short type, off_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// False if a conflicting lock is held elsewhere. Never waits.
inline bool TryLockByte(int fd, short type, off_t byte) {
  struct flock lock = ByteLock(type, byte);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

inline void UnlockByte(int fd, off_t byte) { TryLockByte(fd, F_UNLCK, byte); }

// True if another open file holds a lock on the byte.
inline bool ByteIsLocked(int fd, off_t byte) {
  struct flock lock = ByteLock(F_WRLCK, byte);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// False if a file must not have `size` bytes (RLIMIT_FSIZE). Writing beyond the limit raises
// SIGXFSZ, which ends programs that do not ignore it, so ask before.
inline bool FileMayHave(std::uint64_t size) {
  rlimit most = {};
  return getrlimit(RLIMIT_FSIZE, &most) != 0 || size <= most.rlim_cur;
}

}  // namespace strobe::wire
