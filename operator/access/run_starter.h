// Creates the runs of ProfileSchedules and ProfileTriggers, in the name of whoever created these.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/fair/token_bucket.h"
#include "operator/access/kube_gatekeeper.h"
#include "operator/access/series_policies.h"
#include "operator/base/run_creator.h"
#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/object_cache.h"
#include "operator/kube/written_objects.h"

namespace strobe::access {

class RunStarter {
 public:
  // All must outlive this object.
  struct Dependencies {
    const Clock& clock;
    kube::Client& client;
    const kube::ObjectCache& requests;
    kube::EventRecorder& events;
    KubeGatekeeper* gatekeeper = nullptr;  // Null: it is not known who asks, and all is allowed.
    // The current seal keys; the first one is used for new seals. See admission_seal.h.
    std::function<std::vector<std::string>()> seal_keys{};
    SeriesPolicies* series = nullptr;  // Null: policies do not say how long runs are kept.
  };
  explicit RunStarter(Dependencies dependencies);

  // Seals the creator again with the current key, if its seal is by an older one: keys of replaced
  // authorities are given up, and creators live longer than authorities. Returns the creator's
  // object if it was sealed again, and nothing if that is not needed or it is not admitted.
  // `object` is the creator as it is stored.
  absl::StatusOr<std::optional<kube::Json>> SealAgain(const kube::RunCreator& creator,
                                                      const kube::Json& object);
  // Does the same for a creator that starts nothing now: one that is suspended, or starts its next
  // run after its key was given up, could not be sealed again then. Seals it also once it has been
  // admitted, because the webhooks may be installed anew, and its runs. The rate of these writes is
  // limited. Returns after how long to call it again, also after a failure; none if there are no
  // seals. `creators` has the creator as it is stored, and is told what was written.
  std::optional<Nanos> KeepSealed(const kube::RunCreator& creator, kube::WrittenObjects& creators);
  // Judges access and policies as for a request by the creator's requester, and creates the run
  // within `within`. Nothing if the run exists, even if another operator created it; it gets
  // another name if somebody else has taken its own. After an error, try again.
  absl::StatusOr<std::optional<kube::RunRefusal>> Start(const kube::RunCreator& creator,
                                                        kube::Json& run, Nanos within);
  // The UID of the creator whose run the request is: what is sealed, or `claimed` where nothing is.
  std::string CreatorOf(const kube::Json& request, const std::string& claimed) const;
  bool IsRunOf(const kube::RunCreator& creator, const kube::Json& request) const;
  // The runs of the creator that the cache has.
  std::vector<kube::Object> RunsOf(const kube::RunCreator& creator) const;
  // For RunCreator::not_admitted.
  std::string WhyNotAdmitted(const kube::RunCreator& creator);
  // What policies say about the runs that are kept; none if that is not known now.
  std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns) {
    return deps_.series == nullptr ? policy::SeriesBounds{} : deps_.series->BoundsOf(ns);
  }
  absl::Status Delete(const kube::RunCreator& creator, const kube::CreatedRun& run);
  // Never blocks; an event that cannot be written is dropped.
  void RecordEvent(const kube::RunCreator& creator, bool warning, const std::string& reason,
                   const std::string& action, const std::string& note);

  const Dependencies& dependencies() const { return deps_; }

 private:
  using MaybeRefusal = absl::StatusOr<std::optional<kube::RunRefusal>>;

  std::optional<kube::RunRefusal> WhyTooMany(const kube::RunCreator& creator,
                                             const std::string& name) const;
  std::size_t OpenRunsIn(const std::string& ns) const;
  MaybeRefusal Admit(const kube::RunCreator& creator, MonoTime until, kube::Json& run);
  MaybeRefusal Create(const kube::RunCreator& creator, const kube::Json& run, MonoTime until);
  absl::StatusOr<std::optional<kube::Json>> Seal(const kube::RunCreator& creator,
                                                 const kube::Json& object, const std::string& key);
  Nanos KeepRunsSealed(const kube::RunCreator& creator, const std::vector<std::string>& keys);
  bool MaySeal();

  const Dependencies deps_;
  Mutex mutex_;
  fair::TokenBucket seals_ ABSL_GUARDED_BY(mutex_);  // The writes of KeepSealed.
};

}  // namespace strobe::access
