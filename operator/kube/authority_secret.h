// The authorities in a Secret, by default of a namespace of its own, and their certificates in the
// webhook configurations.
#pragma once
#include <string>

#include "operator/enroll/ports.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class AuthoritySecret final : public AuthorityStore {
 public:
  struct Options {
    std::string space{}, secret{};
    std::string webhooks{};  // Name of our two webhook configurations; empty = not ours to keep.
  };
  AuthoritySecret(Client& client, Options options)
      : client_(client), options_(std::move(options)) {}

  absl::StatusOr<StoredAuthorities> Load() override;
  absl::Status Save(const StoredAuthorities& authorities) override;
  absl::Status TellRoots(const std::string& roots) override;
  absl::StatusOr<bool> AreRootsTold(const std::string& roots) override;

 private:
  std::string SecretPath() const;
  // Writes the roots into our configurations that lack them, and says whether there were any.
  absl::StatusOr<bool> LackRoots(const std::string& roots, bool write);

  Client& client_;
  const Options options_;
};

}  // namespace strobe::kube
