// Stores the certificate authorities in a Secret, by default in a namespace of its own, and writes
// their certificates into the webhook configurations.
#pragma once
#include <string>

#include "operator/enroll/ports.h"
#include "operator/kube/client.h"

namespace strobe::enroll {

class AuthoritySecret final : public AuthorityStore {
 public:
  struct Options {
    std::string ns{}, secret{};
    // Name of Strobe's two webhook configurations; empty if this operator does not manage them.
    std::string webhooks{};
  };
  AuthoritySecret(kube::Client& client, Options options)
      : client_(client), options_(std::move(options)) {}

  absl::StatusOr<StoredAuthorities> Load() override;
  absl::Status Save(const StoredAuthorities& authorities) override;
  absl::Status WriteRoots(const std::string& roots) override;
  absl::StatusOr<bool> AreRootsWritten(const std::string& roots) override;

 private:
  std::string SecretPath() const;
  // Returns whether a configuration lacks the roots. With `write`, also writes them.
  absl::StatusOr<bool> LackRoots(const std::string& roots, bool write);

  kube::Client& client_;
  const Options options_;
};

}  // namespace strobe::enroll
