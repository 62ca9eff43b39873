// What one worker's captures are and may become. Pure: time is an argument, nothing blocks.
// Invariants: at most one capture is not DONE; a capture id is armed at most once; the last
// kRemembered finished reports are kept, older ones are forgotten.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// A sidecar cannot start a source sooner than this.
inline constexpr Nanos kShortestLead = std::chrono::milliseconds(20);
inline constexpr Nanos kLongestLead = std::chrono::hours(1);
inline constexpr Nanos kShortestDuration = std::chrono::milliseconds(1);
inline constexpr Nanos kLongestDuration = std::chrono::minutes(10);
inline constexpr Nanos kLongestGuard = std::chrono::seconds(10);
inline constexpr std::size_t kRemembered = 64;

// XProf reads a worker's file as one protobuf message, and those end before 2 GiB: of a larger file
// it says "Can't parse" (tried with 2.24.2), and files side by side it takes for several hosts.
inline constexpr std::uint64_t kLargestTrace = (std::uint64_t{1} << 31) - 1;

struct ArmDecision {
  bool accepted = false;
  bool fresh = false;  // Accepted for the first time: somebody has to run it now.
  Outcome refusal = Outcome::kUnknown;
  std::string message{};
};

// Why a trace of so many bytes is not kept; empty when it is.
std::string TooLarge(const v1::CapturePlan& plan, std::uint64_t bytes);

// InvalidArgument names the field; refusals that depend on time or on other captures are not here.
absl::Status CheckPlan(const v1::CapturePlan& plan);

class Session {
 public:
  // What an earlier process knew, oldest first. Only before the first Arm.
  void Restore(v1::Report report);
  ArmDecision Arm(const v1::CapturePlan& plan, WallTime now);
  // Null when not known (any more).
  const v1::Report* Find(std::string_view capture_id) const;
  // Replaces the live capture's report. Its state never goes back.
  void Update(const v1::Report& report);
  // The live capture's id, empty when there is none.
  std::string holder() const;
  // How late captures began at worst, of those remembered; never negative.
  Nanos WorstLateness() const;

 private:
  bool HasLive() const;

  std::deque<v1::Report> reports_;  // Oldest first; only the last may be live.
};

// Start of recording against the planned start of the guard; positive is late.
Nanos Lateness(const v1::Report& report);

}  // namespace strobe::session
