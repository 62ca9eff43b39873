#include "common/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  temporary_ = StrCat(path_, ".", ::getpid(), ".part");
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd_ < 0) status_ = absl::ErrnoToStatus(errno, temporary_);
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!done_) ::unlink(temporary_.c_str());
}

absl::Status NewFile::Write(std::string_view piece) {
  while (status_.ok() && !piece.empty()) {
    const ssize_t written = ::write(fd_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      status_ = absl::ErrnoToStatus(errno, temporary_);
    else
      piece.remove_prefix(static_cast<std::size_t>(written));
  }
  return status_;
}

absl::Status NewFile::Finish() {
  RETURN_IF_ERROR(status_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return absl::ErrnoToStatus(errno, path_);
  done_ = true;
  return absl::OkStatus();
}

}  // namespace strobe
