// A sign that a sidecar tells of its worker, what a ProfileTrigger says of signs, and the port to
// what decides on them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::trigger {

enum class SignKind {
  kStepsSlower,
  kNoStep,
  kMemoryNearLimit,
  kSlowerThanOthers,
  kStalled,
  kIterationSlower
};
// For messages and metrics: "StepsSlower", "NoStep", "MemoryNearLimit", "SlowerThanOthers",
// "Stalled", "IterationSlower".
std::string_view NameOf(SignKind kind);

struct SlowSteps {
  std::uint32_t percent = 0;  // How much slower.
  std::uint32_t steps = 0;    // How many steps in a row.
};

// How long a worker must stand still: the longer one of these.
struct StandsStill {
  Nanos at_least = std::chrono::seconds(3);
  std::uint32_t steps = 10;  // So many usual ones.
};

// Which signs start captures.
struct TriggerSigns {
  std::optional<SlowSteps> steps_slower{}, slower_than_others{}, iteration_slower{};
  std::optional<Nanos> no_step_for{};
  std::uint32_t memory_percent = 0;  // The share of the limit; 0 = not asked for.
  std::optional<StandsStill> stalled{};

  bool any() const {
    return steps_slower || slower_than_others || iteration_slower || no_step_for ||
           memory_percent > 0 || stalled;
  }
};

// A sign that a sidecar is asked to look for.
struct SignRule {
  std::string id{};  // "<trigger>/<kind>".
  SignKind kind = SignKind::kStepsSlower;
  std::uint32_t percent = 0, steps = 0;
  Nanos duration{};

  bool operator==(const SignRule&) const = default;
};

// The receiver of signs takes no more than this.
inline constexpr std::size_t kMaxReportedSigns = 8, kMaxReportedStepTimes = 16, kMaxSignRules = 16;
inline constexpr std::size_t kMaxSignText = 128;  // The bytes of a rule, a loop or a process.
// A sign that began longer ago than this is told too late.
inline constexpr Nanos kMaxSignAge = std::chrono::hours(1);

struct ReportedSign {
  std::string rule{};
  Nanos began_ago{};
  std::string loop{}, process{};
  Nanos step{}, usual_step{};
  std::uint64_t memory_used = 0, memory_limit = 0;
  // An inference server's requests, and those and the tokens of its slow, or last, iteration.
  std::uint64_t running = 0, waiting = 0, batch_requests = 0, batch_tokens = 0;
};

// The steps of one loop in one process since the worker told them last.
struct ReportedStepTime {
  std::string loop{}, process{};
  Nanos step{};
  std::uint32_t steps = 0;
};

// What a worker tells. Its certificate proves the UID, and nothing else.
struct WorkerSigns {
  std::string ns{}, pod{}, uid{};
  std::vector<ReportedSign> signs{};
  std::vector<ReportedStepTime> step_times{};
};

struct SignOrders {
  std::vector<SignRule> rules{};
  Nanos again{};  // When to tell again, at the latest.
};

// Safe for concurrent use.
class SignSink {
 public:
  virtual ~SignSink() = default;
  // Decides on the signs, and has created what is to be created when it returns OK. Idempotent, as
  // AlertSink::Take. PermissionDenied: there is no such pod. Unavailable: tell it again later.
  virtual absl::StatusOr<SignOrders> Take(const WorkerSigns& told, MonoTime until) = 0;
};

}  // namespace strobe::trigger
