// The Job that runs a viewer in the cluster for one user. Pure.
//
// It is a Job and not a bare pod because Kubernetes itself then removes it: after its end by
// ttlSecondsAfterFinished, and at its deadline, also when the user's machine is gone.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/objects/request.h"

namespace strobe::cluster {

// Where the viewer listens, on the pod's loopback interface only, so that only a port-forward
// reaches it.
inline constexpr int kViewerPort = 6016;

struct ViewerJobOptions {
  std::string name{};             // The Job's name.
  std::string run{};              // URL of the run or the logdir.
  std::string image{};            // Empty = the one that the pod with the sidecar names.
  std::string service_account{};  // Empty = that of the pod with the sidecar.
  std::string memory = "2Gi";     // The viewer's memory limit.
  Nanos deadline = std::chrono::hours(4);
};

// The arguments with which kubectl lists the pods that Strobe has injected.
std::vector<std::string> InjectedPodArguments();

// Chooses, from a list of injected pods, the one from which the viewer takes its image and, from
// its sidecar, settings: the newest pod of the target or, if the list has none of these, the newest
// of all. JSON null if the list is empty.
nlohmann::json ChoosePod(const nlohmann::json& list, const job::TargetSpec& target);

// The Job to create. The viewer gets what the pod's sidecar has to reach the logdir: storage
// settings, volumes (read-only), user, service account and pull secrets. `pod` may be null if
// `options` has an image. The request, if there is one, owns the Job. FailedPrecondition says what
// is missing.
absl::StatusOr<nlohmann::ordered_json> MakeViewerJob(ViewerJobOptions options,
                                                     const nlohmann::json& pod,
                                                     const objects::ProfileRequest* request);

struct ViewerState {
  enum class Phase { kWaits, kRuns, kEnded };
  Phase phase = Phase::kWaits;
  std::string pod{};   // Empty if there is none yet.
  std::string text{};  // What it waits for, or why it ended.
};

// `objects` is a list of the viewer's Job and pods; `events` those of the Job.
ViewerState StateOf(const nlohmann::json& objects, const nlohmann::json& events);

// The local port in what `kubectl port-forward` writes, such as "Forwarding from 127.0.0.1:40217 ->
// 6016".
std::optional<int> ForwardedPort(std::string_view line);

// Whether `kubectl port-forward` failed with this message because it cannot use the local port that
// it was given: another program listens on it, or it is one of the system's.
bool CannotListen(std::string_view message);

}  // namespace strobe::cluster
