// What a capture records, and from which workers.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/accelerators.h"
#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"
#include "common/protocol/device_mode.h"
#include "common/protocol/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// One worker that should take part.
struct Target {
  std::string name{};       // Unique in the capture: the pod's name; without Kubernetes host_port.
  std::string address{};    // host:port of its sidecar.
  std::string pod{};        // Empty without Kubernetes.
  std::string pod_uid{};    // Its sidecar's certificate must name it; empty without Kubernetes.
  std::string node{};       // The pod's; empty if it is not known.
  std::string container{};  // The containers that train, separated by commas.
  // Record only the programs of this container; empty = of all containers that train.
  std::string only_container{};
  // Record only the processes with these ranks in the job, or in the pod; empty = all.
  std::vector<std::uint32_t> ranks{}, local_ranks{};
  std::size_t processes = 1;  // Processes of the job that its pod runs, as its object tells.
  // How many processes must be found in its pod; 0 = not known. See ExpectedProcesses.
  std::size_t expected_processes = 0;
  bool processes_annotated = false;  // An annotation or a label told that, not a command.
  int rank = -1;                     // -1 = not known.
  std::string file{};  // File name of its trace, without ".xplane.pb"; unique in the run.
  // What it does in its service or job, such as "prefill"; empty = not known. See roles.h.
  std::string role{};
  std::string role_from{};  // Who says so, human-readable: "request", "label llm-d.ai/role".
  ExpectedPlanes planes{};  // What its trace must show, given the accelerators it requests.
  // Why this worker cannot take part, when that is clear before it is asked; none = it can be
  // asked.
  std::optional<Outcome> outcome{};
  std::string message{};
  bool may_come = false;  // It cannot take part yet, and time alone may change that.

  // Whether it can be asked to record, as far as Kubernetes tells.
  bool usable() const { return !outcome; }
};

// What becomes of a trace that started after the instant.
enum class OnLateStart { kKeep, kDiscard };

// The training steps to record.
struct StepsWanted {
  // Which step is the first: the next one that all workers can begin with, `number`, or the next
  // multiple of it.
  enum class From { kNext, kNumber, kMultipleOf };
  From from = From::kNext;
  std::int64_t number = 0;
  std::uint32_t count = 1;  // How many steps.
};

// One target of a request with several: the workers with this role.
struct RoleWanted {
  std::string role{};
  std::size_t min_workers = 0;  // How many of them must end well; 0 = all.
};

struct Spec {
  std::string request{};  // Shown to people: namespace/name, or who asks without Kubernetes.
  // For people, in the manifest: kind/name of the job, and the name of the user who asked. Empty =
  // not known.
  std::string job{}, requester{};
  std::string uid{};                         // Unique to the request; see CaptureId.
  std::string logdir{};                      // URL or path; see collector/store/logdir.h.
  std::string run{};                         // Name of the first attempt's run; see RunOfAttempt.
  Nanos duration = std::chrono::seconds(2);  // The window's length, without the guard.
  // How far before the start the traces reach back, as far as flight recorders hold it.
  Nanos look_back{0};
  // None = the window is given by time. If the workers tell no steps, it is given by time too.
  std::optional<StepsWanted> steps{};
  // The longest time that may be recorded for steps, by policy; none = kMaxStepsTime.
  std::optional<Nanos> max_steps_time{};
  // When to start: after `delay`, or at `at`. At most one is set; none = as soon as is safe.
  std::optional<Nanos> delay{};
  std::optional<WallTime> at{};
  // Begin only once so many requests run or wait in the inference server of each worker.
  std::uint32_t min_running_requests = 0;
  // How long to wait for workers that may become ready by themselves; see OutcomeInfo::waitable.
  Nanos ready_timeout{};
  std::optional<Nanos> guard{};  // None = chosen from measured lateness.
  // From the end of the recording until every trace is in the logdir; none = see CollectBudget.
  std::optional<Nanos> collect_timeout{};
  std::optional<Nanos> max_skew{};  // None = any skew is accepted.
  // How long programs may stand still while their recording ends; none = what their sidecars allow.
  std::optional<Nanos> max_pause{};
  OnLateStart on_late_start = OnLateStart::kKeep;
  std::size_t min_workers = 0;  // How many workers must end well; 0 = all.
  // How many of each target must end well, if the request has several. Then every worker has one of
  // these roles. Empty = there is one target, whatever the roles of its workers.
  std::vector<RoleWanted> roles{};
  std::string workers_note{};  // Shown to people: how many of the job's workers there are.
  std::optional<std::size_t> expected_workers{};  // How many the job should have; none = not known.
  int attempts = 3;                               // How often to try, in all.
  v1::Tracers tracers{};
  v1::SourceKind source = v1::SOURCE_AUTO;
  // The attempt ends after preflight and a test of writing to the logdir; nothing is recorded.
  bool preflight_only = false;
  // The attempt reads what the processes show while they may stand still, and has that judged;
  // nothing is recorded.
  bool collects_evidence = false;
  std::uint64_t max_bytes = 0;  // Largest trace of one worker, in bytes; 0 = no limit.
  // When a sidecar ends a capture that harms its job; see CapturePlan. The memory limit leaves room
  // for jobs that normally use most of their memory.
  std::uint32_t abort_memory_percent = kDefaultAbortMemoryPercent;
  std::uint32_t abort_slowdown_percent = 0;
};

// "<uid>-<attempt>": the id of an attempt at the sidecars. It follows from the request alone, so an
// operator that restarts finds its captures again.
std::string CaptureId(const Spec& spec, int attempt);

// `text` is a number of at least 1 ("3"), or a percentage of `matched` from 1% to 100%, rounded up.
// A number larger than `matched` is returned as it is, and the capture fails for too few workers.
// InvalidArgument for any other text.
absl::StatusOr<std::size_t> ResolveMinWorkers(std::string_view text, std::size_t matched);

// The names that the API and the command line have for the levels of v1::Tracers. The index of a
// name is its number on the wire. The names of the host's levels are those of XLA's TraceMeLevel.
// Those of devices are kDeviceModes. "Off" is not used, because YAML 1.1 reads it as false.
inline constexpr std::array<std::string_view, 4> kHostLevels = {"Disabled", "Critical", "Info",
                                                                "Verbose"};
inline constexpr std::array<std::string_view, 2> kSwitchLevels = {"Disabled", "Enabled"};

inline constexpr std::uint32_t kDefaultHostLevel = 2, kDefaultDeviceLevel = 1;

// The number of the level; nothing if there is no such name.
inline std::optional<std::uint32_t> LevelOfName(std::span<const std::string_view> names,
                                                std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - names.begin());
}

// "Disabled, Enabled", human-readable.
inline std::string LevelNames(std::span<const std::string_view> names) {
  return Join(std::vector<std::string>(names.begin(), names.end()), ", ");
}

}  // namespace strobe::capture
