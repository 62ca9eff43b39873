// What Kubernetes knows of a pod whose worker failed. Pure.
#pragma once
#include <string>

#include "operator/core/attempt_result.h"
#include "operator/core/targets.h"

namespace strobe {

// Can the pod's fate explain this outcome?
bool WantsPodEvidence(Outcome outcome);

// In words, such as "container trainer was OOMKilled (exit code 137) at 2026-01-02T03:04:05Z,
// restarted 2 times"; empty when nothing speaks. `pod` is null when it is gone; what happened
// before `since` explains nothing.
std::string PodEvidence(const Target& target, const PodInfo* pod, WallTime since);

}  // namespace strobe
