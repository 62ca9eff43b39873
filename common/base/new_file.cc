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

absl::Status NewFile::FinishDurably() {
  RETURN_IF_ERROR(status_);
  if (const int error = FlushFile(fd_); error != 0)
    status_ = absl::ErrnoToStatus(error, temporary_);
  RETURN_IF_ERROR(Finish());
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  if (const int error = FlushFolder(AT_FDCWD, folder.empty() ? "." : folder.c_str()); error != 0)
    return absl::ErrnoToStatus(error, path_);
  return absl::OkStatus();
}

}  // namespace strobe
