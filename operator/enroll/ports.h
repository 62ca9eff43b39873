// What enrollment and the certificate authority need from Kubernetes.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::enroll {

struct PodIdentity {
  std::string ns{}, name{}, uid{}, service_account{};
};

class TokenReviewer {
 public:
  virtual ~TokenReviewer() = default;
  // The pod that the token belongs to. Unauthenticated when the token is not valid for our audience
  // or not bound to a pod; any other error means that the API server could not be asked. It is not
  // asked for what cannot be such a token.
  virtual absl::StatusOr<PodIdentity> Review(const std::string& token) = 0;
};

struct StoredAuthorities {
  std::string certificates{}, keys{};  // PEM, in the same order; empty = none yet.
  std::string version{};
  std::optional<WallTime> server_time{};  // By the store's clock, when they were read.
};

// Stores the authorities with their keys; only the operator may be able to read it.
class AuthorityStore {
 public:
  virtual ~AuthorityStore() = default;
  virtual absl::StatusOr<StoredAuthorities> Load() = 0;
  // Aborted when another replica has written since Load.
  virtual absl::Status Save(const StoredAuthorities& authorities) = 0;
  // Tells the API server which authorities to trust when it calls our webhooks. Does nothing when
  // it knows them already; fails when there is no webhook configuration to write them to.
  virtual absl::Status WriteRoots(const std::string& roots) = 0;
  // Whether a leader has told the API server these roots.
  virtual absl::StatusOr<bool> AreRootsWritten(const std::string& roots) = 0;
};

}  // namespace strobe::enroll
