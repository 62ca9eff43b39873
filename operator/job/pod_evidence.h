// What Kubernetes knows about the pods of workers that failed. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "operator/job/pod.h"
#include "operator/job/targets.h"

namespace strobe::job {

// What happened to the target's pod, human-readable: "container trainer was OOMKilled (exit code
// 137) at 2026-01-02T03:04:05Z, restarted 2 times". Empty when nothing did. `pod` is null when
// there is no pod of that name any more. Containers that ended before `since` are left out.
std::string PodEvidence(const capture::Target& target, const PodInfo* pod, WallTime since);

// The evidence of every target that has some, by target name.
std::map<std::string, std::string> EvidenceByTarget(const std::vector<capture::Target>& targets,
                                                    const std::vector<PodInfo>& pods,
                                                    WallTime since);

// Why an attempt waits for workers, human-readable.
struct PendingReason {
  std::string reason{};   // A condition's reason: one CamelCase word.
  std::string message{};  // A condition's message.
};

// What keeps a capture of `selection` from beginning with all of its workers.
PendingReason WhyPending(const Selection& selection);

}  // namespace strobe::job
