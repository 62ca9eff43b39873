// Decides who may have captures, and when.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/base/admission_seal.h"
#include "operator/base/run_creator.h"
#include "operator/objects/request.h"
#include "operator/policy/policy.h"

namespace strobe::access {

class Gatekeeper {
 public:
  virtual ~Gatekeeper() = default;
  // Why it cannot be proved who created the stored request; empty when it can. Blocks; an error
  // means that this could not be found out.
  virtual absl::StatusOr<std::string> WhyNotAdmitted(const objects::ProfileRequest& request) = 0;
  // Judges access and policies. Blocks for `within` at most. An error means that this could not be
  // found out, and the capture must not begin.
  virtual absl::StatusOr<policy::Verdict> Judge(const objects::ProfileRequest& request,
                                                const kube::Requester& requester,
                                                const policy::EarlierCaptures& earlier,
                                                Nanos within) = 0;
  // Like Judge, but by policies that may be some seconds old: cheap, for waiting requests that ask
  // again and again. None: nothing makes the request wait, or that is not known; ask Judge.
  virtual std::optional<policy::Verdict> JudgeFromCache(const objects::ProfileRequest& request,
                                                        const policy::EarlierCaptures& earlier) = 0;
  // The logdir that policies give to a request of the namespace that names none. Blocks for
  // `within` at most. NotFound and FailedPrecondition tell the requester why there is none; other
  // errors mean that this could not be found out.
  virtual absl::StatusOr<std::string> LogdirFor(const std::string& ns, Nanos within) = 0;
  // Why the namespace may not have one more request now; empty if it may.
  virtual std::string WhyNoMoreRequests(const std::string& /*ns*/) { return ""; }
  // Like WhyNoMoreRequests, for a schedule or trigger. Blocks for `within` at most. An error means
  // that this could not be found out.
  virtual absl::StatusOr<std::string> WhyNoMore(kube::CreatorKind /*kind*/,
                                                const std::string& /*ns*/, Nanos /*within*/) {
    return std::string();
  }
  // A capture of the namespace that may have recorded something has ended. The time is kept longer
  // than the request lives, because minInterval counts from it.
  virtual void CaptureEnded(const std::string& ns, WallTime when) = 0;
};

}  // namespace strobe::access
