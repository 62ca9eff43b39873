// A server's certificate, and the authorities of its clients, from files that others renew.
#pragma once
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"

namespace strobe {

// Safe for concurrent use.
class IdentityFiles {
 public:
  struct Paths {  // PEM files; empty = not from a file.
    std::string certificate{}, key{}, client_authority{};
  };
  // Fails if one of the files cannot be read or holds no certificate, or if the key is another
  // one's.
  static absl::StatusOr<std::unique_ptr<IdentityFiles>> Read(Paths paths);
  IdentityFiles(const IdentityFiles&) = delete;
  IdentityFiles& operator=(const IdentityFiles&) = delete;

  // Reads the files again. If one cannot be used, what was read before stays in use, and a line in
  // the log says so once.
  void ReadAgain();

  // Null if the certificate is not from a file.
  const LiveIdentity* identity() const { return identity_.get(); }
  std::string client_authorities() const;  // A PEM bundle.

 private:
  explicit IdentityFiles(Paths paths) : paths_(std::move(paths)) {}
  absl::StatusOr<Identity> ReadIdentity() const;
  absl::Status ReplaceIdentity();
  absl::Status ReadClientAuthorities();

  const Paths paths_;
  std::unique_ptr<LiveIdentity> identity_{};
  mutable Mutex mutex_;
  std::string client_authorities_ ABSL_GUARDED_BY(mutex_);
  std::string complaint_ ABSL_GUARDED_BY(mutex_);  // What was logged last.
};

}  // namespace strobe
