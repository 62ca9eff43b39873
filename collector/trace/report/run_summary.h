// What the digests of a run say about its steps and operations, in the form in which two runs are
// compared. Pure.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe::report {

// The parts of a step. The first four add up to it. The next three are parts of the idle time, and
// the last one contains the exposed communication.
enum class StepPart : std::uint8_t {
  kCompute,
  kExposedCommunication,
  kExposedCopies,
  kIdle,
  kInput,
  kGarbageCollection,
  kHostBound,
  kCommunication,
};
inline constexpr std::size_t kStepParts = 8;
// "compute", "exposed communication", ...
std::string_view PartName(StepPart part);

using PartTimes = std::array<std::int64_t, kStepParts>;
using PartsPresent = std::array<bool, kStepParts>;
PartTimes PartsOf(const digest::Breakdown& time, const digest::HostTime& host);
// Which of the parts the digest's trace can tell.
PartsPresent KnownParts(const digest::Knows& knows);

// The work of one operation on one worker.
struct WorkerOp {
  std::uint32_t worker = 0;  // In RunSummary::workers.
  // Self time in ns and calls, of a typical step or, without steps, of a second of recording.
  double self = 0, calls = 0;
  // How much the self time of single steps varies if the calls of a step vary together; infinite or
  // NaN if the digest does not know how much single calls vary.
  double deviation = 0;
};

struct OpSummary {
  digest::WorkKind kind = digest::WorkKind::kCompute;
  std::string name{};
  std::vector<WorkerOp> workers{};  // In ascending order.
};

struct SummaryWorker {
  std::string name{};
  std::optional<std::uint32_t> rank{};
  std::size_t steps = 0;
  // The recording also holds incomplete steps at its ends. Because of them, the figures of an
  // operation can be wrong by the share `edges`, and by `outside` ns of self time at most.
  double edges = 0, outside = 0;
  // The self time of the smallest operation that is listed, if others were left out; 0 = none was.
  double unlisted = 0;
};

struct RunSummary {
  std::vector<SummaryWorker> workers{};
  std::size_t with_steps = 0;  // How many of them have steps.
  std::string loop{};          // The name of the steps.
  // One value for each step, in the order of the steps' numbers and in ns: the median over the
  // workers of the duration, and the mean of each part over the workers that tell it.
  std::vector<double> step_ns{};
  std::array<std::vector<double>, kStepParts> parts_ns{};
  PartsPresent parts_known{};  // The parts that at least one worker tells.
  // Without steps, in their place: the ns of each part in a second of recording, in the mean.
  std::array<double, kStepParts> parts_in_second{};
  bool device = false, host_device = false;  // As digest::Knows, of at least one worker.
  std::vector<OpSummary> ops{};              // By kind and name. What devices did, if any did.
  std::size_t ops_left_out = 0;              // Names beyond the limit.
};

// The loop that takes most of the time of all workers; empty without steps.
std::string_view MainLoop(std::span<const digest::Digest> digests);

// Steps are those of MainLoop. A step that no other one follows seems shorter than it is; it counts
// only for a worker that has no other. Steps that less than half of the workers tell do not count.
RunSummary SummarizeRun(std::span<const digest::Digest> digests);

}  // namespace strobe::report
