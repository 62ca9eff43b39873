// The Gatekeeper over the API server: SubjectAccessReview, ProfilePolicy objects and the cache of
// ProfileRequests.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collector/base/mutex.h"
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
                                      const Crowd& crowd, Nanos within) override;
  std::optional<PolicyVerdict> Glance(const ProfileRequest& request, const Crowd& crowd) override;

 private:
  // What was read of the API server, and when.
  template <typename T>
  struct Remembered {
    T value{};
    MonoTime read{};
  };
  using Labels = std::map<std::string, std::string>;

  // Empty when it may; else why not.
  absl::StatusOr<std::string> WhyNoAccess(const ProfileRequest& request, const Requester& requester,
                                          MonoTime deadline);
  absl::StatusOr<bool> MayProfile(const Requester& requester, const std::string& space,
                                  const std::string& pod, MonoTime deadline);
  PolicyVerdict JudgeByFacts(const ProfileRequest& request, const Crowd& crowd,
                             const std::vector<ProfilePolicy>& policies, Labels labels) const;
  // Of the namespace's other captures.
  std::optional<WallTime> LastEnd(const ProfileRequest& request) const;
  absl::StatusOr<std::vector<ProfilePolicy>> ReadPolicies(MonoTime deadline);
  absl::StatusOr<Labels> ReadLabels(const std::string& space, MonoTime deadline);
  // As remembered, read again when it is too old; only one at a time reads, and after a failure
  // nobody does for a while.
  absl::StatusOr<std::vector<ProfilePolicy>> RecentPolicies();
  absl::StatusOr<Labels> RecentLabels(const std::string& space);
  bool MayReadAgain(MonoTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Client& client_;
  const ObjectCache& requests_;
  const bool need_policy_;
  Mutex mutex_;
  std::optional<Remembered<std::vector<ProfilePolicy>>> policies_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Remembered<Labels>> labels_ ABSL_GUARDED_BY(mutex_);  // By namespace.
  std::optional<MonoTime> failed_ ABSL_GUARDED_BY(mutex_);  // When one of them was not to be had.
};

}  // namespace strobe::kube
