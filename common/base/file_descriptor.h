// An owned file descriptor.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace strobe {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }  // -1 if there is none.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Opens a regular file for reading. InvalidArgument if it is something else, such as a FIFO, which
// would wait for a writer, or a device, which may never end.
absl::StatusOr<FileDescriptor> OpenRegularFile(const std::string& path);

// Writes all the bytes. Returns 0, or the number of the error (errno).
int WriteAll(int fd, std::string_view bytes);

// Makes what was written to the file survive a crash of the machine. Returns 0, or the number of
// the error (errno). Does nothing on file systems that cannot flush such a file.
int FlushFile(int fd);
// Makes the names in the folder `path`, such as that of a file that was renamed, survive a crash of
// the machine. The path is relative to the folder `at`, as for openat. Returns 0, or the number of
// the error if the disk failed. Does nothing on file systems that cannot flush a folder, such as
// mounted buckets, and in folders that this process may not list.
int FlushFolder(int at, const char* path);

// Reads the file's next bytes into a part of `room` and returns how many there are; 0 at the end.
absl::StatusOr<std::size_t> ReadSome(const FileDescriptor& file, std::span<char> room);

}  // namespace strobe
