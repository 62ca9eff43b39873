#include "agent/evidence/memory_view.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace strobe::agent {

OwnMemory::~OwnMemory() {
  if (file_ >= 0) close(file_);
}

bool OwnMemory::Read(std::uint64_t at, void* to, std::size_t size) const {
  if (call_is_refused_) return ReadFile(at, to, size);
  iovec local{.iov_base = to, .iov_len = size};
  iovec remote{.iov_base = reinterpret_cast<void*>(at), .iov_len = size};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got >= 0) return static_cast<std::size_t>(got) == size;
  if (errno != EPERM && errno != ENOSYS) return false;
  call_is_refused_ = true;
  return ReadFile(at, to, size);
}

bool OwnMemory::ReadFile(std::uint64_t at, void* to, std::size_t size) const {
  if (file_ < 0) file_ = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (file_ < 0) return false;
  const ssize_t got = pread(file_, to, size, static_cast<off_t>(at));
  return got >= 0 && static_cast<std::size_t>(got) == size;
}

}  // namespace strobe::agent
