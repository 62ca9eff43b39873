// How one worker's capture ended: Ok, or the one cause that explains it best. The table behind
// these functions is the only place that says what an outcome means; status messages, metrics and
// documentation are made from it.
#pragma once
#include <span>
#include <string_view>

namespace strobe {

// Numbers equal strobe.v1.Outcome on the wire; a unit test holds the two together.
enum class Outcome {
  kUnknown = 0,  // Not ended yet.
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
  Outcome outcome;
  std::string_view name;      // As in status, metrics and manifest.
  bool retryable;             // Can a new attempt, with nothing else changed, end better?
  bool waitable;              // Before a capture: is it enough to wait and ask again?
  bool has_trace;             // Is there a trace file that somebody can use?
  int badness;                // Sorts outcomes worst first.
  std::string_view detected;  // How Strobe knows.
  std::string_view remedy;    // One sentence to the user: what to do.
};

// In the order of the numbers.
std::span<const OutcomeInfo> AllOutcomes();
const OutcomeInfo& Describe(Outcome outcome);
std::string_view Name(Outcome outcome);
// kUnknown for a name that no outcome has.
Outcome OutcomeOfName(std::string_view name);

}  // namespace strobe
