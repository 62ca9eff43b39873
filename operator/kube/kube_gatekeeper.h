// The Gatekeeper over the API server: SubjectAccessReview, ProfilePolicy objects and the cache of
// ProfileRequests.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/core/gatekeeper.h"
#include "operator/kube/capture_history.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

class KubeGatekeeper final : public Gatekeeper {
 public:
  struct Options {
    // Without it a namespace that no policy matches may do everything.
    bool need_policy = true;
    // Keys whose seals hold; see admission_seal.h.
    std::function<std::vector<std::string>()> seal_keys{};
    // Name of the webhook configurations under which requests are stamped; empty = not looked at.
    std::string webhooks{};
  };

  // All outlive it.
  KubeGatekeeper(const Clock& clock, Client& client, const ObjectCache& requests,
                 CaptureHistory& history, Options options)
      : clock_(clock),
        client_(client),
        requests_(requests),
        history_(history),
        options_(std::move(options)) {}

  absl::StatusOr<std::string> WhyNotAdmitted(const ProfileRequest& request) override;
  absl::StatusOr<PolicyVerdict> Judge(const ProfileRequest& request, const Requester& requester,
                                      const Crowd& crowd, Nanos within) override;
  std::optional<PolicyVerdict> Glance(const ProfileRequest& request, const Crowd& crowd) override;
  void CaptureEnded(const std::string& space, WallTime when) override;

 private:
  // Whether our webhooks were there when it was created.
  absl::StatusOr<bool> WereInstalledFor(const ProfileRequest& request);
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
  absl::StatusOr<PolicyVerdict> JudgeByFacts(const ProfileRequest& request, const Crowd& crowd,
                                             const std::vector<ProfilePolicy>& policies,
                                             Labels labels, MonoTime deadline);
  // Of the namespace's other captures.
  struct Others {
    std::optional<WallTime> last_end{};
    int active =
        0;  // As their statuses say: also those that this operator has not found again yet.
  };
  Others OthersOf(const ProfileRequest& request) const;
  absl::StatusOr<std::vector<ProfilePolicy>> ReadPolicies(MonoTime deadline);
  absl::StatusOr<Labels> ReadLabels(const std::string& space, MonoTime deadline);
  // As remembered, read again when it is too old; only one at a time reads, and after a failure
  // nobody does for a while.
  absl::StatusOr<std::vector<ProfilePolicy>> RecentPolicies();
  absl::StatusOr<Labels> RecentLabels(const std::string& space);
  bool MayReadAgain(MonoTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recent_mutex_);

  const Clock& clock_;
  Client& client_;
  const ObjectCache& requests_;
  CaptureHistory& history_;
  const Options options_;

  Mutex mutex_;
  std::set<std::string> installed_for_ ABSL_GUARDED_BY(mutex_);  // UIDs of which it is known.
  // The longest of all policies as they were read last; nothing: not read yet.
  std::optional<Nanos> longest_interval_ ABSL_GUARDED_BY(mutex_);

  // Held while one of them is read; before mutex_.
  Mutex recent_mutex_;
  std::optional<Remembered<std::vector<ProfilePolicy>>> policies_ ABSL_GUARDED_BY(recent_mutex_);
  std::map<std::string, Remembered<Labels>> labels_
      ABSL_GUARDED_BY(recent_mutex_);  // By namespace.
  std::optional<MonoTime> failed_
      ABSL_GUARDED_BY(recent_mutex_);  // When one of them was not to be had.
};

}  // namespace strobe::kube
