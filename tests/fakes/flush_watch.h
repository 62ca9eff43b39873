// Tells a test what its program flushes to disk. Takes the place of libc's fsync in that program.
#pragma once
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace strobe {

// While this object lives, `flushing` is called with the path of each file or folder just before it
// is flushed, on the thread that flushes it. One at a time.
class FlushWatch {
 public:
  explicit FlushWatch(std::function<void(const std::string& path)> flushing) {
    const std::lock_guard lock(mutex_);
    flushing_ = std::move(flushing);
  }
  ~FlushWatch() {
    const std::lock_guard lock(mutex_);
    flushing_ = nullptr;
  }
  FlushWatch(const FlushWatch&) = delete;
  FlushWatch& operator=(const FlushWatch&) = delete;

  static void Tell(int fd) {
    const std::lock_guard lock(mutex_);
    if (!flushing_) return;
    std::array<char, 4096> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t size = readlink(link.c_str(), path.data(), path.size());
    if (size > 0) flushing_(std::string(path.data(), static_cast<std::size_t>(size)));
  }

 private:
  static inline std::mutex mutex_{};
  static inline std::function<void(const std::string& path)> flushing_{};
};

}  // namespace strobe

// Kept although no test calls it, because the code under test does.
extern "C" {
[[gnu::used]] inline int fsync(int fd) {
  strobe::FlushWatch::Tell(fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
}
