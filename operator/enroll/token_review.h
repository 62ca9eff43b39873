// Implements the interfaces of operator/enroll with the API server.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "operator/enroll/ports.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class KubeTokenReviewer final : public TokenReviewer {
 public:
  KubeTokenReviewer(const Clock& clock, Client& client) : clock_(clock), client_(client) {}
  absl::StatusOr<PodIdentity> Review(const std::string& token) override;

 private:
  const Clock& clock_;
  Client& client_;
};

}  // namespace strobe::kube
