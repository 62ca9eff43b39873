// Implements the interfaces of operator/enroll with the API server.
#pragma once
#include <string>

#include "operator/enroll/ports.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class KubeTokenReviewer final : public TokenReviewer {
 public:
  explicit KubeTokenReviewer(Client& client) : client_(client) {}
  absl::StatusOr<PodIdentity> Review(const std::string& token) override;

 private:
  Client& client_;
};

}  // namespace strobe::kube
