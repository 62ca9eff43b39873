// The Gatekeeper over the API server: SubjectAccessReview, ProfilePolicy objects and the cache of
// ProfileRequests.
#pragma once
#include "operator/core/gatekeeper.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

class KubeGatekeeper final : public Gatekeeper {
 public:
  // All outlive it. Without `need_policy` a namespace that no policy matches may do everything.
  KubeGatekeeper(const Clock& clock, Client& client, const ObjectCache& requests, bool need_policy)
      : clock_(clock), client_(client), requests_(requests), need_policy_(need_policy) {}

  absl::StatusOr<PolicyVerdict> Judge(const ProfileRequest& request, const Requester& requester,
                                      int active) override;

 private:
  // Empty when it may; else why not.
  absl::StatusOr<std::string> WhyNoAccess(const ProfileRequest& request,
                                          const Requester& requester);
  absl::StatusOr<bool> MayProfile(const Requester& requester, const std::string& space,
                                  const std::string& pod);
  // Of the namespace's other captures.
  std::optional<WallTime> LastEnd(const ProfileRequest& request) const;
  absl::StatusOr<std::vector<ProfilePolicy>> Policies();

  const Clock& clock_;
  Client& client_;
  const ObjectCache& requests_;
  const bool need_policy_;
};

}  // namespace strobe::kube
