// The same judgement that a sidecar makes, of any trace that lies somewhere, with what it rests on.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/analysis/judge.h"
#include "collector/analysis/steps.h"
#include "collector/xplane/space.h"

namespace strobe {

struct Verdict {
  Judgement judgement{};
  std::vector<std::string> evidence{};  // A sentence each.
};

// `steps`: of FindSteps. A trace from a capture of Strobe is held against the window that was asked
// for; of others nobody knows it.
absl::StatusOr<Verdict> JudgeSpace(const xplane::Space& space, const std::vector<Step>& steps,
                                   bool expects_device);

}  // namespace strobe
