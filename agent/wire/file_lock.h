// Locks on single bytes of a file, by which processes of several containers know of each other.
// POSIX only.
#pragma once
#include <fcntl.h>

namespace strobe::wire {

// The lock belongs to the open file, so that closing another descriptor of the same file does not
// drop it, and ends with the last descriptor of that open file.
inline struct flock ByteLock(short type, off_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// False when somebody else holds a lock that forbids it.
inline bool TryLockByte(int fd, short type, off_t byte) {
  struct flock lock = ByteLock(type, byte);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

inline void UnlockByte(int fd, off_t byte) { TryLockByte(fd, F_UNLCK, byte); }

// Does anybody but this open file hold a lock on it?
inline bool ByteIsLocked(int fd, off_t byte) {
  struct flock lock = ByteLock(F_WRLCK, byte);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace strobe::wire
