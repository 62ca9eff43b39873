// A process's own certificate and the authorities it trusts. Both can be replaced at run time. Key
// and certificate are also available as file paths, for libraries that accept nothing else; the
// files are in memory and never on a disk. Safe for concurrent use.
#pragma once
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/tls/certificate.h"

namespace strobe {

struct Identity {
  KeyPair own{};
  std::string roots{};  // PEM bundle.
};

class LiveIdentity {
 public:
  // Fails where no more files can be opened.
  static absl::StatusOr<std::unique_ptr<LiveIdentity>> Create(Identity first);
  explicit LiveIdentity(const Identity& first);  // Ends the process where Create fails.
  LiveIdentity(const LiveIdentity&) = delete;
  LiveIdentity& operator=(const LiveIdentity&) = delete;

  std::shared_ptr<const Identity> Get() const;
  // Replaces the certificate and keeps the key. Libraries read the two files one after the other,
  // so a new key could be combined with the old certificate. After an error all is as before, and
  // the caller tries again later.
  absl::Status Renew(std::string certificate, std::string roots);

  // Replaces key and certificate. Only for users of Get(): the two files do not change together.
  // After an error Get() returns what it returned before.
  absl::Status Replace(Identity identity);

  // Paths of the in-memory files, valid during the lifetime of this object.
  std::string key_path() const;
  std::string certificate_path() const;

 private:
  struct Files {
    FileDescriptor key{}, certificate{};
  };
  static absl::StatusOr<Files> FilesOf(const KeyPair& own);
  LiveIdentity(Identity first, Files files);

  mutable Mutex mutex_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
  const Files files_;
};

}  // namespace strobe
