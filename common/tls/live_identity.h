// A process's own certificate and the authorities that it trusts, replaced while it runs. Key and
// certificate can also be read as files, for libraries that take nothing else; they never lie on a
// disk. Safe for concurrent use.
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
  // The key must be the one of before: its file and the certificate's are read one after the other.
  void Renew(std::string certificate, std::string roots);

  // With another key. Only for whoever reads Get(): the files change one after the other.
  void Replace(Identity identity);

  // Valid as long as this object is.
  std::string key_path() const;
  std::string certificate_path() const;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
  const int key_file_, certificate_file_;
};

}  // namespace strobe
