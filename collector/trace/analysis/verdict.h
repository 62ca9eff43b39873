// Judges a stored trace as a sidecar does after recording, and lists the facts behind the
// judgement.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/analysis/judge.h"
#include "collector/trace/analysis/steps.h"
#include "collector/trace/xplane/space.h"

namespace strobe::analysis {

struct Verdict {
  Judgement judgement{};
  std::vector<std::string> evidence{};  // Human-readable facts, one phrase each.
};

// `steps` are those that FindSteps found in `space`. A trace that Strobe captured tells in its
// Strobe plane which window was asked for and how its sidecar judged it; a trace of another tool is
// judged without a window. `expects_device`: a trace without a device plane is incomplete. DataLoss
// when the trace is damaged.
absl::StatusOr<Verdict> JudgeSpace(const xplane::Space& space, const std::vector<Step>& steps,
                                   bool expects_device);

}  // namespace strobe::analysis
