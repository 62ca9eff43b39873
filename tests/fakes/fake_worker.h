// A job's sidecars in memory, with clocks of their own and all the ways in which they fail. They
// obey the contract of strobe.v1.Worker: idempotent arming, reports that stay, cancellation.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/version.h"
#include "operator/core/ports.h"
#include "tests/fakes/simulated_time.h"

namespace strobe {

struct FakeSidecar {
  // How it behaves.
  Nanos offset{};  // Its clock against the operator's.
  Nanos clock_error = std::chrono::microseconds(50);
  bool clock_measurable = true;
  absl::Status check{};  // What preflight fails with.
  std::string holder{};  // A capture that holds it.
  bool source_ready = true;
  v1::SourceKind source = v1::SOURCE_AUTO;  // Of what answers in its trainer.
  std::vector<std::string> containers{};    // That it can tell apart.
  absl::Status arm{};                       // What arming fails with, although it took effect.
  bool arm_answers = true;
  bool throws_in_arm = false;
  v1::Outcome refusal = v1::OUTCOME_UNSPECIFIED;
  v1::Outcome ends_as = v1::OK;
  Nanos lateness = std::chrono::microseconds(100);
  Nanos collect = std::chrono::milliseconds(50);
  bool dies = false;     // In the middle of the recording.
  bool forgets = false;  // Is restarted in the middle of the recording.
  bool finishes = true;
  absl::Status publish{};
  Nanos publish_takes{};
  absl::Status reclaim{};
  int floods = 0;             // Reports that it sends at once when it is watched.
  absl::Status watch_ends{};  // What it ends each watch with, after the flood.
  unsigned protocol = kWorkerProtocol;
  Nanos wake_lateness{};

  // What happened to it.
  std::map<std::string, v1::Report> reports{};
  std::vector<v1::CapturePlan> plans{};  // Accepted ones.
  std::vector<std::string>
      kept{};  // Asked to end early, which they do after a second of recording.
  std::vector<std::string> cancelled{};
  std::vector<v1::PublishRequest> published{};
  std::vector<v1::ReclaimRequest> reclaimed{};
  int checks = 0, connects = 0;
  bool dead = false;
};

class FakeFleet final : public WorkerConnector {
 public:
  explicit FakeFleet(SimulatedTime& time) : time_(time) {}
  FakeSidecar& operator[](const std::string& name) {
    return *sidecars_.try_emplace(name, std::make_shared<FakeSidecar>()).first->second;
  }
  std::shared_ptr<Worker> Connect(const Target& target) override;

 private:
  SimulatedTime& time_;
  std::map<std::string, std::shared_ptr<FakeSidecar>> sidecars_;
};

}  // namespace strobe
