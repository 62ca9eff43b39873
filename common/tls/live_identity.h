// A process's own certificate and the authorities it trusts. Both can be replaced at run time. Key
// and certificate are also available as file paths, for libraries that accept nothing else; the
// files are in memory and never on a disk. Safe for concurrent use.
#pragma once
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/tls/certificate.h"

namespace strobe {

struct Identity {
  KeyPair own{};
  std::string roots{};  // PEM bundle.
};

class LiveIdentity {
 public:
  explicit LiveIdentity(Identity first);
  ~LiveIdentity();
  LiveIdentity(const LiveIdentity&) = delete;
  LiveIdentity& operator=(const LiveIdentity&) = delete;

  std::shared_ptr<const Identity> Get() const;
  // Replaces the certificate and keeps the key. Libraries read the two files one after the other,
  // so a new key could be combined with the old certificate.
  void Renew(std::string certificate, std::string roots);

  // Replaces key and certificate. Only for users of Get(): the two files do not change together.
  void Replace(Identity identity);

  // Paths of the in-memory files, valid during the lifetime of this object.
  std::string key_path() const;
  std::string certificate_path() const;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
  const int key_file_, certificate_file_;
};

}  // namespace strobe
