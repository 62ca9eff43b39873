// The result of an attempt that has ended: per worker, in total, and as a manifest. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/ports.h"
#include "capture/spec.h"
#include "capture/stall_report.h"
#include "capture/start_plan.h"
#include "common/base/clock.h"
#include "strobe/v1/manifest.pb.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// When a worker started to record.
struct CorrectedStart {
  WallTime started{};  // On the worker's clock.
  Nanos offset{};      // Worker clock minus operator clock.
  std::optional<Nanos>
      error{};  // Half-width of the offset's error interval; nullopt: not measured.
};

struct Skew {
  Nanos achieved{};  // Largest difference of two starts, clocks corrected.
  std::optional<Nanos>
      error{};  // Half-width of its error interval; nullopt: a clock is not measured.
};

// How far apart the starts are: nullopt without starts; zero, without error, for a single one.
std::optional<Skew> ComputeSkew(std::span<const CorrectedStart> starts);

struct StepsOfWorker {
  v1::RecordedSteps steps{};
  Nanos offset{};                // Worker clock minus operator clock.
  std::optional<Nanos> error{};  // Half-width of the offset's error interval; none = not measured.
};

struct CommonSteps {
  std::string loop{};
  std::int64_t first = 0, last = 0;
  // How far apart the workers began `first`. This is a property of the job: workers that wait for
  // one another begin close together, others do not. None if not all of them recorded that it
  // began.
  std::optional<Skew> spread{};
};

// None if the workers recorded steps of different loops, or no step is complete on all of them.
std::optional<CommonSteps> FindCommonSteps(std::span<const StepsOfWorker> workers);

// "step 12 of train" or "steps 12 to 15 of train".
std::string Describe(const CommonSteps& steps);

struct WorkerResult {
  Target target{};
  bool armed = false;  // It accepted a plan, whatever became of it then.
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
  v1::Report report{};           // The last one; empty when the worker was never armed.
  Nanos offset{};                // Worker clock minus operator clock.
  std::optional<Nanos> error{};  // Half-width of the offset's error interval; none = not measured.
  // Its clock was measured before the recording and not after it.
  bool not_measured_after = false;
  Nanos wall_less_monotonic{};  // See CapturePlan.
  // The ranks that its processes told in preflight, by local rank; see SplitByProcess.
  std::vector<v1::ProcessRank> ranks{};
  int local_rank = -1;  // Its number in its pod; -1 unless the pod has several workers.
  // The rank system that its rank counts in, if its role has several; see AssignGroups.
  std::string group{};
  // What its sidecar told preflight, human-readable: its version, and the sources in its trainer.
  // Only with Spec::preflight_only.
  std::string sidecar{};
  std::vector<std::string> sources{};
  // When it is expected to record the plan's steps; none without steps.
  std::optional<ExpectedSteps> expected_steps{};
};

// What became of one target of a request with several.
struct RoleResult {
  std::string role{};
  std::size_t pods = 0, ok = 0;  // Its pods, and those of them that count.
  std::size_t wanted = 0;        // How many must count.
  std::optional<Skew> skew{};    // Among its workers; none if none recorded anything.
};

// AttemptResult::reason when the workers cannot record the step that was asked for.
inline constexpr std::string_view kStepOutOfReach = "StepOutOfReach";

struct AttemptResult {
  bool succeeded = false;
  bool cancelled = false;  // By the user.
  std::string reason{};    // One CamelCase word, for conditions.
  std::string message{};
  int attempt = 1;  // Counts from 1.
  std::string capture_id{}, run{};
  std::optional<StartPlan> plan{};
  // The recorded time of an attempt that was ended early, or that recorded steps; else none.
  std::optional<Nanos> duration{};
  // In the order of the targets; pods with several processes have several.
  std::vector<WorkerResult> workers{};
  // Copied from Spec.
  std::string workers_note{};
  std::optional<std::size_t> expected_workers{};
  std::size_t ok = 0;     // Workers with a trace that ended well; see Counts.
  std::size_t armed = 0;  // Workers that accepted a plan.
  std::size_t empty = 0;  // Workers whose trace lacks all or some of the wanted events.
  // None when no worker recorded anything, or the capture began at a step: each worker then begins
  // in its own time.
  std::optional<Skew> skew{};
  std::vector<RoleResult> roles{};     // In the order of Spec::roles.
  std::optional<CommonSteps> steps{};  // Complete on all workers with a trace; none = not known.
  // How far the traces of all workers reach back; none if that was not asked for, or no worker has
  // a trace.
  std::optional<Nanos> reached_back{};
  bool synchronized = false;  // Every recording covers the window, and maxSkew holds.
  std::string sync_reason{}, sync_message{};
  std::uint64_t bytes = 0;             // The size of all traces in the logdir.
  std::uint64_t reports_replaced = 0;  // Reports that a newer one replaced before they were read.
  JobReport report{};                  // What the traces say together.
  StallReport stall{};                 // What the evidence says, if the attempt asked for that.
  std::string manifest_url{};          // Empty when no manifest could be written.
  std::string manifest_error{};        // Why not; empty when it was written.
};

// Start of the recording minus the planned start of the guard, on the worker's clock; positive =
// late. None when the trace does not tell when it started, or the capture began at a step.
std::optional<Nanos> LatenessOf(const WorkerResult& worker);

// Whether this worker has a trace that ended well, or, with Spec::preflight_only, could have
// one, or, with collects_evidence, has told its evidence. A late start counts if the request keeps
// late traces, and this one has a complete step if steps were asked for. A pod counts towards
// minWorkers if all its workers do.
bool Counts(const WorkerResult& worker, const Spec& spec);

// Fills in verdict, counts, skew and synchronization from `result.workers`. A reason that is set
// already is kept as the verdict.
void Conclude(const Spec& spec, AttemptResult& result);

v1::Manifest ComposeManifest(const Spec& spec, const AttemptResult& result);
// The content of strobe.json. If it were larger than kMaxManifestBytes, details are left out until
// it fits, beginning with workers that ended Ok. InvalidArgument: a text is not valid UTF-8, or the
// manifest is too large even without details.
absl::StatusOr<std::string> ManifestJson(v1::Manifest manifest);
inline constexpr std::size_t kMaxManifestBytes = 12u << 20;  // Sidecars refuse a larger one.

// Workers that did not end Ok: the worst outcome first, equal outcomes by name.
std::vector<const WorkerResult*> WorstFirst(const AttemptResult& result);

// The complete steps in one worker's trace.
inline constexpr Nanos kMaxRetryWait = std::chrono::seconds(30);

// How long to wait before the next attempt: 1 s, doubled with each attempt, up to kMaxRetryWait.
// None when the capture succeeded, was cancelled, or no attempt is left, or another one cannot
// succeed.
std::optional<Nanos> RetryAfter(const Spec& spec, const AttemptResult& result);

}  // namespace strobe::capture
