// Implements the interfaces of operator/enroll with the API server.
#pragma once
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "operator/enroll/ports.h"
#include "operator/kube/client.h"

namespace strobe::enroll {

class KubeTokenReviewer final : public TokenReviewer {
 public:
  KubeTokenReviewer(const Clock& clock, kube::Client& client) : clock_(clock), client_(client) {}
  absl::StatusOr<PodIdentity> Review(const std::string& token) override;

 private:
  const Clock& clock_;
  kube::Client& client_;
};

// Whether the API server may accept this token: it is a JSON Web Token for `audience` that has not
// expired. Its signature is not verified, so that a stranger can write one; the API server decides.
bool MayBeAccepted(std::string_view token, std::string_view audience, WallTime now);

}  // namespace strobe::enroll
