// The outcomes of one worker's capture: Ok, or the cause that explains the failure best. The table
// behind these functions is the single definition of every outcome; status messages, metrics and
// documentation use it.
#pragma once
#include <span>
#include <string_view>

namespace strobe {

// The numbers equal strobe.v1.Outcome; a unit test compares the two.
enum class Outcome {
  kUnknown = 0,  // The capture has not ended.
  kOk = 1,
  kSidecarMissing = 2,
  kUnreachable = 3,
  kBusy = 4,
  kNoSource = 5,
  kProfilerStartFailed = 6,
  kLateStart = 7,
  kNoDeviceActivity = 8,
  kNoHostEvents = 9,
  kDeviceTraceMissing = 10,
  kPermissionDenied = 11,
  kCuptiUnavailable = 12,
  kVersionMismatch = 13,
  kEventsDropped = 14,
  kTruncated = 15,
  kSpoolFull = 16,
  kUploadDenied = 17,
  kUploadFailed = 18,
  kWorkerLost = 19,
  kCancelled = 20,
  kDeadlineExceeded = 21,
  kAborted = 22,
  kWorkerMissing = 23,
};

struct OutcomeInfo {
  Outcome outcome = Outcome::kUnknown;
  std::string_view name{};       // The name in status, metrics and manifest.
  bool retryable = false;        // True if a new attempt can succeed without any other change.
  bool waitable = false;         // True if waiting and asking again can cure it before the capture.
  bool has_trace = false;        // True if there is a usable trace file.
  bool pod_may_explain = false;  // True if something that happened to the pod can be the reason.
  int badness = 0;               // Sort key: a higher number is worse.
  std::string_view detected{};   // What Strobe observed, as one sentence.
  std::string_view remedy{};     // What the user should do, as one sentence.
};

// All outcomes, in the order of their numbers.
std::span<const OutcomeInfo> AllOutcomes();
const OutcomeInfo& Describe(Outcome outcome);
std::string_view Name(Outcome outcome);
// The outcome with this name, or kUnknown if there is none.
Outcome OutcomeOfName(std::string_view name);

}  // namespace strobe
