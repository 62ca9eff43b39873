// Names the job that a capture records, for budgets and for people. Pure.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "operator/base/job_kinds.h"
#include "operator/job/target_spec.h"

namespace strobe::job {

// "kind/name", and the group where the kind alone does not tell it: "Job.batch.volcano.sh/name".
std::string JobText(const kube::JobRef& job);
// The job that a target names: JobText of its jobRef, else "Pod/a,b" or "Selector/app=train". Which
// of the workers are recorded makes no difference. Bounded: a longer text ends with a hash.
std::string TargetText(const TargetSpec& target);
// The text of a request's only target or, for several, "prefill=Deployment/a,decode=Deployment/b",
// bounded likewise.
std::string TextOfTargets(std::span<const TargetSpec> targets);
// The value of kTriggeredJobLabel.
std::string JobHash(std::string_view job);

}  // namespace strobe::job
