// A job's sidecars in memory, with their own clocks, that fail on demand. They obey the contract of
// strobe.v1.Worker: arming is idempotent, reports remain available, captures can be cancelled.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/ports.h"
#include "common/base/version.h"
#include "tests/fakes/simulated_time.h"

namespace strobe {

struct FakeSidecar {
  // Behaviour, set by tests.
  Nanos offset{};  // Its clock minus the operator's.
  Nanos clock_error = std::chrono::microseconds(50);
  bool clock_measurable = true;
  Nanos blur{};  // Preflight measures its clock wrongly by so much, and adds that to the error.
  bool measures_again = true;  // Its clock can be measured after the recording.
  Nanos drift{};  // By how much its clock has gone ahead when it is measured after the recording.
  absl::Status check{};  // Result of preflight.
  Nanos check_takes{};
  std::string holder{};  // Id of the capture that holds it.
  bool source_ready = true;
  std::vector<v1::ProcessRank> ranks{};     // The ranks of the processes in its source.
  v1::SourceKind source = v1::SOURCE_AUTO;  // Kind of the source in its trainer.
  std::vector<std::string> containers{};    // Containers that it can distinguish.
  absl::Status arm{};                       // Result of arming; it takes effect anyway.
  bool arm_answers = true;
  bool throws_in_arm = false;
  v1::Outcome refusal = v1::OUTCOME_UNSPECIFIED;
  v1::Outcome ends_as = v1::OK;
  std::uint64_t events = 10;  // In its trace.
  std::string writes_into{};  // The run that it writes into; empty = the plan's.
  Nanos lateness = std::chrono::microseconds(100);
  Nanos collect = std::chrono::milliseconds(50);
  bool dies = false;     // Dies in the middle of the recording.
  bool forgets = false;  // Restarts in the middle of the recording.
  bool finishes = true;
  std::string digest{};  // The answer to ReadDigest; empty = the sidecar is older than digests.
  Nanos digest_takes{};
  // The answer to ReadEvidence; none = the sidecar is older than that.
  std::optional<absl::StatusOr<v1::ReadEvidenceResponse>> evidence{};
  Nanos evidence_takes{};
  std::optional<v1::Stall> stall{};  // What it tells preflight.
  absl::Status publish{};
  Nanos publish_takes{};
  absl::Status reclaim{};
  int floods = 0;             // Number of reports that it sends at once when a watch begins.
  absl::Status watch_ends{};  // Status with which each watch ends after the flood.
  std::vector<v1::StepPace> steps{};  // What its processes tell.
  unsigned protocol = kWorkerProtocol;
  Nanos wake_lateness{};

  // Calls that it received, and its state.
  std::map<std::string, v1::Report> reports{};
  std::vector<v1::CapturePlan> plans{};  // Accepted plans.
  // Captures that were asked to end early, which they do after a second of recording.
  std::vector<std::string> kept{};
  std::vector<std::string> cancelled{};
  std::vector<v1::PublishRequest> published{};
  std::vector<v1::ReadEvidenceRequest> evidence_asked{};
  std::vector<v1::ReclaimRequest> reclaimed{};
  int checks = 0, connects = 0;
  bool dead = false;
};

class FakeFleet final : public capture::WorkerConnector {
 public:
  explicit FakeFleet(SimulatedTime& time) : time_(time) {}
  FakeSidecar& operator[](const std::string& name) {
    return *sidecars_.try_emplace(name, std::make_shared<FakeSidecar>()).first->second;
  }
  std::shared_ptr<capture::Worker> Connect(const capture::Target& target) override;

 private:
  SimulatedTime& time_;
  std::map<std::string, std::shared_ptr<FakeSidecar>> sidecars_;
};

}  // namespace strobe
