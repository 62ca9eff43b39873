#include "common/tls/live_identity.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

absl::StatusOr<FileDescriptor> MemoryFile(const std::string& content) {
  FileDescriptor file(memfd_create("strobe-identity", MFD_CLOEXEC));
  int error = file.get() < 0 ? errno : 0;
  if (error == 0) error = WriteAll(file.get(), content);
  if (error != 0) return absl::ErrnoToStatus(error, "cannot keep a certificate in memory");
  return file;
}

// dup3 replaces the file behind the descriptor atomically: a reader that has opened the old file
// reads all of it.
absl::Status Exchange(const FileDescriptor& file, const FileDescriptor& fresh) {
  if (dup3(fresh.get(), file.get(), O_CLOEXEC) < 0)
    return absl::ErrnoToStatus(errno, "cannot exchange a certificate in memory");
  return absl::OkStatus();
}

std::string PathOf(const FileDescriptor& file) { return StrCat("/proc/self/fd/", file.get()); }

}  // namespace

absl::StatusOr<LiveIdentity::Files> LiveIdentity::FilesOf(const KeyPair& own) {
  Files files;
  ASSIGN_OR_RETURN(files.key, MemoryFile(own.key));
  ASSIGN_OR_RETURN(files.certificate, MemoryFile(own.certificate));
  return files;
}

absl::StatusOr<std::unique_ptr<LiveIdentity>> LiveIdentity::Create(Identity first) {
  ASSIGN_OR_RETURN(Files files, FilesOf(first.own));
  return std::unique_ptr<LiveIdentity>(new LiveIdentity(std::move(first), std::move(files)));
}

LiveIdentity::LiveIdentity(const Identity& first) : LiveIdentity(first, *FilesOf(first.own)) {}

LiveIdentity::LiveIdentity(Identity first, Files files)
    : identity_(std::make_shared<const Identity>(std::move(first))), files_(std::move(files)) {}

std::shared_ptr<const Identity> LiveIdentity::Get() const {
  MutexLock lock(&mutex_);
  return identity_;
}

absl::Status LiveIdentity::Replace(Identity identity) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Files fresh, FilesOf(identity.own));
  RETURN_IF_ERROR(Exchange(files_.key, fresh.key));
  RETURN_IF_ERROR(Exchange(files_.certificate, fresh.certificate));
  identity_ = std::make_shared<const Identity>(std::move(identity));
  return absl::OkStatus();
}

absl::Status LiveIdentity::Renew(std::string certificate, std::string roots) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const FileDescriptor fresh, MemoryFile(certificate));
  RETURN_IF_ERROR(Exchange(files_.certificate, fresh));
  identity_ = std::make_shared<const Identity>(
      Identity{{std::move(certificate), identity_->own.key}, std::move(roots)});
  return absl::OkStatus();
}

std::string LiveIdentity::key_path() const { return PathOf(files_.key); }
std::string LiveIdentity::certificate_path() const { return PathOf(files_.certificate); }

}  // namespace strobe
