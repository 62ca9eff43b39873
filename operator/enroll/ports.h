// What enrolling needs of Kubernetes.
#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace strobe {

struct PodIdentity {
  std::string space{}, name{}, uid{}, service_account{};
};

class TokenReviewer {
 public:
  virtual ~TokenReviewer() = default;
  // Unauthenticated: no valid token of our audience, or not bound to a pod. Other errors: could not
  // be asked.
  virtual absl::StatusOr<PodIdentity> Review(const std::string& token) = 0;
};

// Where the authorities' keys lie; only the operator may read it.
struct StoredAuthorities {
  std::string certificates{}, keys{};  // PEM, in the same order; empty = none yet.
  std::string version{};
};

class AuthorityStore {
 public:
  virtual ~AuthorityStore() = default;
  virtual absl::StatusOr<StoredAuthorities> Load() = 0;
  // Aborted when somebody else has written meanwhile.
  virtual absl::Status Save(const StoredAuthorities& authorities) = 0;
  // Tells the API server whom to trust when it calls our webhooks. Does nothing when it knows;
  // fails when there is nothing to tell it by.
  virtual absl::Status TellRoots(const std::string& roots) = 0;
  // Whether they have been told, by whichever leader.
  virtual absl::StatusOr<bool> AreRootsTold(const std::string& roots) = 0;
};

}  // namespace strobe
