#include "common/tls/live_identity.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/base/log.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

int MemoryFile(const std::string& content) {
  const int file = memfd_create("strobe-identity", MFD_CLOEXEC);
  if (file < 0 ||
      write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    // If a few hundred bytes cannot be allocated, nothing else can work either.
    LogError("cannot allocate memory for a certificate", {});
    std::abort();
  }
  return file;
}

// dup3 replaces the file behind the descriptor atomically: a reader that has opened the old file
// reads all of it.
void ExchangeContent(int file, const std::string& content) {
  const int fresh = MemoryFile(content);
  dup3(fresh, file, O_CLOEXEC);
  close(fresh);
}

std::string PathOf(int file) { return StrCat("/proc/self/fd/", file); }

}  // namespace

LiveIdentity::LiveIdentity(Identity first)
    : identity_(std::make_shared<const Identity>(std::move(first))),
      key_file_(MemoryFile(identity_->own.key)),
      certificate_file_(MemoryFile(identity_->own.certificate)) {}

LiveIdentity::~LiveIdentity() {
  close(key_file_);
  close(certificate_file_);
}

std::shared_ptr<const Identity> LiveIdentity::Get() const {
  MutexLock lock(&mutex_);
  return identity_;
}

void LiveIdentity::Replace(Identity identity) {
  MutexLock lock(&mutex_);
  ExchangeContent(key_file_, identity.own.key);
  ExchangeContent(certificate_file_, identity.own.certificate);
  identity_ = std::make_shared<const Identity>(std::move(identity));
}

void LiveIdentity::Renew(std::string certificate, std::string roots) {
  MutexLock lock(&mutex_);
  ExchangeContent(certificate_file_, certificate);
  identity_ = std::make_shared<const Identity>(
      Identity{{std::move(certificate), identity_->own.key}, std::move(roots)});
}

std::string LiveIdentity::key_path() const { return PathOf(key_file_); }
std::string LiveIdentity::certificate_path() const { return PathOf(certificate_file_); }

}  // namespace strobe
