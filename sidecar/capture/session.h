// The captures of one worker and their states. Pure: the time is an argument and nothing blocks.
// Invariants: at most one capture is not DONE; a capture id is armed at most once; the last
// kRemembered finished reports are kept.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/protocol/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// The shortest time in which a sidecar can start a source.
inline constexpr Nanos kMinLead = std::chrono::milliseconds(20);
inline constexpr Nanos kMaxLead = std::chrono::hours(1);
inline constexpr Nanos kMinCaptureDuration = std::chrono::milliseconds(1);
inline constexpr Nanos kMaxCaptureDuration = std::chrono::minutes(10);
inline constexpr Nanos kMaxGuard = std::chrono::seconds(10);
inline constexpr std::uint32_t kMaxCaptureSteps = 10'000;
inline constexpr std::int64_t kLastStep = std::int64_t{1} << 53;  // What JSON can carry exactly.
inline constexpr std::size_t kRemembered = 64;

// XProf parses a worker's file as one protobuf message, which cannot have 2 GiB. For a larger file
// it reports "Can't parse" (verified with 2.24.2), and it takes several files for several hosts.
inline constexpr std::uint64_t kMaxTrace = (std::uint64_t{1} << 31) - 1;

struct ArmDecision {
  bool accepted = false;
  bool fresh = false;  // Accepted for the first time, so the caller must run it.
  Outcome refusal = Outcome::kUnknown;
  std::string message{};
};

// The reason why a trace of this size is refused; empty if it is not.
std::string TooLarge(const v1::CapturePlan& plan, std::uint64_t bytes);

// Checks the plan's fields. InvalidArgument names the invalid field. Refusals that depend on the
// time or on other captures are not checked here.
absl::Status CheckPlan(const v1::CapturePlan& plan);

class Session {
 public:
  // Adds a report of an earlier process, oldest first. Call it before the first Arm.
  void Restore(v1::Report report);
  ArmDecision Arm(const v1::CapturePlan& plan, WallTime now);
  // Refuses a capture that was cancelled before it was armed: the operator gives up an Arm that
  // takes too long, and its Cancel may overtake it. The last kRemembered ids are kept. A capture
  // that is known does not change.
  void Forbid(std::string_view capture_id);
  // Null if the capture is unknown or forgotten.
  const v1::Report* Find(std::string_view capture_id) const;
  // Replaces the live capture's report. Ignored if the state would go back.
  void Update(const v1::Report& report);
  // The live capture's id; empty if there is none.
  std::string holder() const;
  // The largest start delay of the remembered captures; never negative.
  Nanos WorstLateness() const;

 private:
  bool HasLive() const;
  bool IsForbidden(std::string_view capture_id) const;

  std::deque<v1::Report> reports_;     // Oldest first; only the last may be live.
  std::deque<std::string> forbidden_;  // Capture ids, oldest first.
};

// The actual start minus the planned start of the guard; positive if late. 0 if the plan counts
// steps, because then no start is planned.
Nanos Lateness(const v1::Report& report);

}  // namespace strobe::session
