#include "common/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/file_descriptor.h"
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
  if (!status_.ok()) return status_;
  if (const int error = WriteAll(fd_, piece); error != 0)
    status_ = absl::ErrnoToStatus(error, temporary_);
  return status_;
}

absl::Status NewFile::Finish() {
  RETURN_IF_ERROR(status_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return absl::ErrnoToStatus(errno, path_);
  done_ = true;
  return absl::OkStatus();
}

}  // namespace strobe
