#include "agent/evidence/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "agent/wire/file_lock.h"

namespace strobe::agent {
namespace {

bool WriteBytes(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

bool WriteSmallFile(const std::string& directory, const std::string& name, std::string_view bytes) {
  if (!wire::FileMayHave(bytes.size())) return false;
  const std::string path = directory + "/" + name, hidden = directory + "/." + name + ".new";
  unlink(hidden.c_str());
  const int file = open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) return false;
  fchmod(file, 0644);  // The sidecar usually runs as another user.
  bool written = WriteBytes(file, bytes);
  written = close(file) == 0 && written;
  if (written && rename(hidden.c_str(), path.c_str()) == 0) return true;
  unlink(hidden.c_str());
  return false;
}

}  // namespace strobe::agent
