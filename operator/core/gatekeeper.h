// Who may have captures, and when.
#pragma once
#include "absl/status/statusor.h"
#include "operator/core/policy.h"
#include "operator/core/request.h"
#include "operator/core/requester.h"

namespace strobe {

class Gatekeeper {
 public:
  virtual ~Gatekeeper() = default;
  // `active`: captures under way in the namespace besides this one. Blocking. An error means that
  // it could not be found out; whoever asks must not go on.
  virtual absl::StatusOr<PolicyVerdict> Judge(const ProfileRequest& request,
                                              const Requester& requester, int active) = 0;
};

}  // namespace strobe
