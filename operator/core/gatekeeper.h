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
  // Why it is not known beyond doubt who asked for a request that has been stored; empty when it
  // is. Blocking; an error as below.
  virtual absl::StatusOr<std::string> WhyNotAdmitted(const ProfileRequest& request) = 0;
  // Blocking, for so long at most. An error means that it could not be found out; whoever asks must
  // not go on.
  virtual absl::StatusOr<PolicyVerdict> Judge(const ProfileRequest& request,
                                              const Requester& requester, const Crowd& crowd,
                                              Nanos within) = 0;
  // Whether it must wait, as policies were some seconds ago: cheap, for those who look again and
  // again. Nothing: it need not, or that is not known; then Judge says what holds.
  virtual std::optional<PolicyVerdict> Glance(const ProfileRequest& request,
                                              const Crowd& crowd) = 0;
  // A capture of the namespace has ended, or was given up, that may have recorded something. Kept
  // beyond the request's life, for minInterval.
  virtual void CaptureEnded(const std::string& space, WallTime when) = 0;
};

}  // namespace strobe
