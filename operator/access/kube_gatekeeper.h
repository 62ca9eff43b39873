// Implements Gatekeeper with the API server: SubjectAccessReviews, ProfilePolicy objects and the
// cache of ProfileRequests.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/access/automatic_runs.h"
#include "operator/access/capture_history.h"
#include "operator/access/gatekeeper.h"
#include "operator/base/run_creator.h"
#include "operator/kube/client.h"
#include "operator/kube/object_cache.h"

namespace strobe::access {

// What policies say about a run that a schedule or trigger is about to create.
struct RunVerdict {
  policy::Verdict verdict{};
  bool counted = false;  // Budgets of policies count it for 24 hours.
};

class KubeGatekeeper final : public Gatekeeper {
 public:
  struct Options {
    // If false, a namespace without a matching policy has no restrictions.
    bool need_policy = true;
    // Returns the keys whose seals are valid; see admission_seal.h.
    std::function<std::vector<std::string>()> seal_keys{};
    // Name of the webhook configurations that have requests sealed. If it is empty, their existence
    // is not checked.
    std::string webhooks{};
  };

  // All arguments must outlive this object.
  KubeGatekeeper(const Clock& clock, kube::Client& client, const kube::ObjectCache& requests,
                 CaptureHistory& history, Options options)
      : clock_(clock),
        client_(client),
        requests_(requests),
        history_(history),
        options_(std::move(options)),
        runs_(clock, requests, options_.seal_keys) {}

  absl::StatusOr<std::string> WhyNotAdmitted(const objects::ProfileRequest& request) override;
  // Judges a schedule or trigger, which may be much older than its requests.
  absl::StatusOr<std::string> WhyNotAdmitted(const kube::RunCreator& creator);
  absl::StatusOr<policy::Verdict> Judge(const objects::ProfileRequest& request,
                                        const kube::Requester& requester,
                                        const policy::EarlierCaptures& earlier,
                                        Nanos within) override;
  // Like Judge, for a run that a creator whose requester is known starts. A run that is not refused
  // is counted from now on, so that another thread does not use the same budget.
  absl::StatusOr<RunVerdict> JudgeRun(const objects::ProfileRequest& run,
                                      const kube::RunCreator& creator, Nanos within);
  // The run was not created after all.
  void ForgetRun(const std::string& ns, const std::string& name);
  std::optional<policy::Verdict> JudgeFromCache(const objects::ProfileRequest& request,
                                                const policy::EarlierCaptures& earlier) override;
  absl::StatusOr<std::string> LogdirFor(const std::string& ns, Nanos within) override;
  std::string WhyNoMoreRequests(const std::string& ns) override;
  absl::StatusOr<std::string> WhyNoMore(kube::CreatorKind kind, const std::string& ns,
                                        Nanos within) override;
  void CaptureEnded(const std::string& ns, WallTime when) override;

 private:
  // An object with the annotation of its requester.
  struct Stamped {
    std::string uid{};
    WallTime created{};
    const kube::SealedAdmission& admission;
    const std::string& seal;
    bool changed = false;   // Its change was sealed, not its creation.
    bool admitted = false;  // See SealAdmitted.
  };
  // Empty if the seal proves the requester; otherwise why it does not.
  absl::StatusOr<std::string> WhyNotProved(const Stamped& stamped);
  // True if Strobe's webhooks were installed when the object was sealed, and are still.
  absl::StatusOr<bool> WereInstalledFor(const Stamped& stamped);
  // A value read from the API server, and when.
  template <typename T>
  struct Remembered {
    T value;
    MonoTime read;
  };
  using Labels = std::map<std::string, std::string>;

  // Empty if access is allowed; otherwise the reason for the refusal.
  absl::StatusOr<std::string> WhyNoAccess(const objects::ProfileRequest& request,
                                          const kube::Requester& requester, MonoTime deadline);
  absl::StatusOr<bool> MayProfile(const kube::Requester& requester, const std::string& ns,
                                  const std::string& pod, MonoTime deadline);
  absl::StatusOr<policy::Verdict> JudgeByFacts(const objects::ProfileRequest& request,
                                               const policy::EarlierCaptures& earlier,
                                               const std::vector<policy::ProfilePolicy>& policies,
                                               Labels labels, MonoTime deadline);
  policy::Verdict JudgeWith(const std::vector<policy::ProfilePolicy>& policies,
                            const policy::NamespaceFacts& facts,
                            const objects::ProfileRequest& request,
                            const policy::JobRuns* automatic);
  absl::StatusOr<policy::NamespaceFacts> FactsOf(const objects::ProfileRequest& request,
                                                 const policy::EarlierCaptures& earlier,
                                                 const std::vector<policy::ProfilePolicy>& policies,
                                                 Labels labels, MonoTime deadline);
  // The other captures of the namespace.
  struct OtherCaptures {
    std::optional<WallTime> last_end{};
    // Counted by their statuses, so captures that this operator has not found again yet are
    // included.
    int active = 0;
  };
  OtherCaptures OtherCapturesOf(const objects::ProfileRequest& request) const;
  absl::StatusOr<std::vector<policy::ProfilePolicy>> ReadPolicies(MonoTime deadline);
  absl::StatusOr<Labels> ReadLabels(const std::string& ns, MonoTime deadline);
  // Return the remembered value and read it again if it is too old. Only one thread reads at a
  // time, and after a failure none reads for a while.
  absl::StatusOr<std::vector<policy::ProfilePolicy>> RecentPolicies();
  absl::StatusOr<Labels> RecentLabels(const std::string& ns);
  bool MayReadAgain(MonoTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recent_mutex_);

  const Clock& clock_;
  kube::Client& client_;
  const kube::ObjectCache& requests_;
  CaptureHistory& history_;
  const Options options_;

  // Held while it is decided whether a run fits into the budget that its job's other runs have
  // left.
  Mutex runs_mutex_;
  AutomaticRuns runs_ ABSL_GUARDED_BY(runs_mutex_);

  Mutex mutex_;
  // UIDs and seals of objects for which the answer is known to be yes.
  std::set<std::string> installed_for_ ABSL_GUARDED_BY(mutex_);
  // The longest minInterval of all policies at the last read; nothing before the first read.
  std::optional<Nanos> longest_interval_ ABSL_GUARDED_BY(mutex_);

  // Held while policies or labels are read. Lock it before mutex_.
  Mutex recent_mutex_;
  std::optional<Remembered<std::vector<policy::ProfilePolicy>>> policies_
      ABSL_GUARDED_BY(recent_mutex_);
  // The labels of each namespace.
  std::map<std::string, Remembered<Labels>> labels_ ABSL_GUARDED_BY(recent_mutex_);
  // The time of the last failed read.
  std::optional<MonoTime> failed_ ABSL_GUARDED_BY(recent_mutex_);
};

}  // namespace strobe::access
