// Files below a directory that others write to, without ever following a symbolic link of theirs:
// a trainer that shares the logdir's volume could lead us to any file that we may open. The
// directory itself may be a link, or lie behind one.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  ~FileDescriptor();
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

enum class Missing { kIsAnError, kIsMade };

// Opens the directory `folder` (parts divided by '/'; empty = the root itself) below `root`.
// InvalidArgument for "..", FailedPrecondition where a part is a symbolic link, else see FileError.
absl::StatusOr<FileDescriptor> OpenFolder(const std::string& root, std::string_view folder,
                                          Missing missing);

// Opens a regular file of the folder to read it. Never waits for a pipe's other end.
absl::StatusOr<FileDescriptor> OpenFileIn(const FileDescriptor& folder, const std::string& name);

struct FolderEntry {
  std::string name{};
  bool is_folder = false;  // Else a regular file; nothing else is an entry.
  std::uint64_t bytes = 0;
};
// What is in a folder, hidden names left out.
absl::StatusOr<std::vector<FolderEntry>> ReadFolder(const FileDescriptor& folder);

}  // namespace strobe
