// What a capture is asked to do, and of whom.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/capture_defaults.h"
#include "common/base/clock.h"
#include "common/base/outcome.h"
#include "operator/core/accelerators.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

struct Target {
  std::string name{};     // Names the worker everywhere: the pod, or host_port without Kubernetes.
  std::string address{};  // host:port of its sidecar.
  std::string pod{};      // Empty without Kubernetes.
  std::string pod_uid{};  // Whom its sidecar's certificate must name; empty without Kubernetes.
  std::string container{};  // That trains; several with commas.
  // The one container of several whose programs are to be recorded; empty = all that train.
  std::string only_container{};
  int rank = -1;            // -1 = not known.
  std::string file{};       // File name of its trace, without ".xplane.pb"; unique in the run.
  ExpectedPlanes planes{};  // What its trace must show, by the accelerators that it asks for.
  // Set when it is already clear that this worker cannot take part.
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
  bool may_come = false;  // It cannot take part yet, and time alone may mend that.
};

enum class OnLateStart { kKeep, kDiscard };

struct CaptureSpec {
  std::string request{};  // namespace/name, or who asks, for people.
  std::string uid{};      // Unique to the request; names the captures.
  std::string logdir{};
  std::string run{};  // Of the first attempt.
  Nanos duration = std::chrono::seconds(2);
  std::optional<Nanos> delay{};  // Until the instant; none = the smallest safe lead.
  std::optional<WallTime> at{};  // The instant itself; at most one of the two.
  // How long to wait for workers that may become ready by themselves; see OutcomeInfo.
  Nanos ready_timeout{};
  std::optional<Nanos> guard{};  // None = from measured lateness.
  // From the end of the recording until every trace is in the logdir; none = by the duration.
  std::optional<Nanos> collect_timeout{};
  std::optional<Nanos> max_skew{};
  OnLateStart on_late_start = OnLateStart::kKeep;
  std::size_t min_workers = 0;  // How many must end Ok; 0 = all.
  std::string workers_note{};   // How many workers there are of how many, for people.
  std::optional<std::size_t> expected_workers{};  // That the job should have; none = not known.
  int attempts = 3;
  v1::Tracers tracers{};
  v1::SourceKind source = v1::SOURCE_AUTO;
  std::uint64_t max_bytes = 0;
  std::uint32_t abort_memory_percent = kDefaultAbortMemoryPercent;  // See CapturePlan.
  std::uint32_t abort_slowdown_percent = 0;
};

// "<uid>-<attempt>": what sidecars know an attempt by, so that an operator that restarts finds it.
std::string CaptureId(const CaptureSpec& spec, int attempt);

}  // namespace strobe
