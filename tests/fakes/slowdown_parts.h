// Which part of a job makes it slower than one in which all workers are alike, as the published
// answers in tests/data/straggler-analysis tell it. Strobe reports only the slowdown of the whole
// job (ComputeSlowdown); the parts check its replays against the publication, and tell the
// benchmark what computing them would cost. The method and its words are those of "Understanding
// Stragglers in Large Model Training Using What-if Analysis" (ByteDance and others, 2025).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collector/trace/report/operations.h"
#include "collector/trace/report/what_if.h"

namespace strobe::report {

// A part of a job and its slowdown: the mean step time if only this part keeps its own durations
// and all other operations take the ideal ones, divided by that of the ideal job.
struct PartSlowdown {
  std::string part{};  // "stage 3", "replica 0", a worker's name or a type of operation.
  double slowdown = 0;
  std::vector<double> by_step{};  // In the order of SlowdownParts::steps.
};

struct SlowdownParts {
  std::vector<std::int64_t> steps{};  // The numbers of the steps that were replayed.
  // The time of each step: as the job recorded it; replayed with its own durations, without the
  // delays that no operation explains; and the ideal one, which is the same for steps with the same
  // operations.
  std::vector<double> recorded_ns{}, replayed_ns{}, ideal_ns{};
  // Mean replayed time divided by mean ideal time: S.
  double slowdown = 0;
  std::vector<PartSlowdown> by_worker{}, by_stage{}, by_replica{}, by_type{};
  // The share of the slowdown that disappears if the slowest worker (M_W of the method, with one
  // worker), or the last stage (M_S), takes the ideal durations. nullopt where there is no slowdown
  // of which to take a share, or only one worker or stage.
  std::optional<double> slowest_worker_share{}, last_stage_share{};
};

// The job is one of MakePipelineJob or has no stages. by_worker (with slowest_worker_share) and
// by_type are left out where they would replay more than 20 million operations, because each worker
// or type is a replay of the whole job. nullopt if no step could be replayed.
std::optional<SlowdownParts> ComputeSlowdownParts(const Job& job, Replays& replays);

}  // namespace strobe::report
