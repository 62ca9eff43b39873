// Makes a worker of each process of a pod. Pure.
#pragma once
#include <vector>

#include "capture/attempt_result.h"

namespace strobe::capture {

inline constexpr std::size_t kMaxWorkersOfPod = 64;

// The ranks that a sidecar told in preflight, by local rank and without repetitions; the first
// kMaxWorkersOfPod of them.
std::vector<v1::ProcessRank> RanksOf(const v1::DescribeResponse& description);

// Replaces each worker whose sidecar recorded several local ranks by one worker for each of them:
// "<pod>/<local rank>". A worker without a report is replaced likewise if its sidecar had told of
// several, so that a pod that is lost counts with all its processes. Then every worker has the rank
// that its process told, if the processes of its role tell other ranks than the pods, and its
// group.
//
// Processes that a pod should run and that nobody told of are workers too, as WorkerMissing:
//   * ranks of Target::ranks, if the pod's other processes tell theirs;
//   * up to Target::expected_processes. A command's number counts only among processes that tell
//     their local ranks, as those of a launcher do.
// A pod without any process has one outcome, which says why.
void SplitByProcess(std::vector<WorkerResult>& workers);

}  // namespace strobe::capture
