// The values of a ProfileRequest, without JSON. helm/strobe/crds/profilerequests.yaml describes the
// fields and their ranges.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/attempt_progress.h"
#include "capture/spec.h"
#include "capture/stall_report.h"
#include "common/base/clock.h"
#include "operator/base/admission_seal.h"
#include "operator/base/condition.h"
#include "operator/base/names.h"
#include "operator/job/target_spec.h"

namespace strobe::objects {

// One of status.outcomes: a worker that did not end Ok.
struct StatusOutcome {
  std::string pod{}, cause{}, message{}, lateness{};
};

// One of status.causes: how many workers ended with a cause.
struct StatusCause {
  std::string cause{};
  std::size_t workers = 0;
};

// One of status.preflight: what a worker told a request that only preflights.
struct StatusPreflight {
  std::string pod{}, cause{}, message{}, sidecar{}, clock_offset{}, clock_error{};
  std::vector<std::string> sources{};

  bool operator==(const StatusPreflight&) const = default;
};

// One of status.targets: what became of one target of a request with several.
struct StatusTarget {
  std::string name{};
  std::size_t pods = 0, ok = 0;
  std::string skew{}, skew_error{};  // Empty = not known.

  bool operator==(const StatusTarget&) const = default;
};

// status.stall: why the job stands still.
struct StatusStall {
  std::string kind{}, confidence{};  // As in a StallReport; empty = it was not judged.
  // The first line of a StallReport's text, and the others. Names in them are without controls.
  std::string verdict{};
  std::vector<std::string> details{}, stacks{};
  std::vector<capture::StallCulprit> culprits{};

  bool operator==(const StatusStall&) const = default;
};

struct RequestStatus {
  std::int64_t observed_generation = 0;
  std::vector<kube::Condition> conditions{};
  std::string run{}, viewer{};
  std::optional<WallTime> start_time{}, completion_time{}, retry_time{};
  int attempt = 0;                 // The newest attempt; 0 = none has begun.
  std::size_t queue_position = 0;  // Captures ahead of it on its workers; 0 = it is its turn.
  std::size_t matched = 0, armed = 0, ok = 0, empty = 0, failed = 0;
  std::optional<std::size_t> expected{};  // How many workers the job should have; none = not known.
  std::vector<StatusTarget> targets{};    // Empty for a request with one.
  std::string skew{}, skew_error{};       // Empty = not known.
  std::string steps_loop{}, steps_spread{};  // Empty = not known.
  std::int64_t first_step = 0, last_step = 0;
  std::string reached_back{};  // Empty = the capture was not to reach back.
  // How long workers recorded, in all attempts that have ended; none = none has.
  std::optional<Nanos> recorded{};
  std::string clock_pod{}, clock_offset{}, clock_error{};
  std::string report{};  // The report's headline; empty = there is none.
  StatusStall stall{};
  std::uint64_t bytes = 0;
  std::vector<StatusOutcome> outcomes{};
  std::vector<StatusCause> causes{};
  std::vector<StatusPreflight> preflight{};
  std::vector<capture::WorkersInState> progress{};  // While a capture is under way.
};

struct ProfileRequest {
  std::string ns{}, name{}, uid{}, resource_version{};
  std::int64_t generation = 0;
  WallTime created{};
  bool deleting = false;
  WallTime deleted{};  // deletionTimestamp.
  std::vector<std::string> finalizers{};
  std::optional<kube::Requester> requester{};  // From the annotation; proved only by a valid seal.
  kube::SealedAdmission admission{};           // What the seal must cover to be valid.
  std::string seal{};                          // From the annotation; empty when there is none.
  job::TargetSpec target{};                    // Without `targets`.
  std::vector<job::TargetSpec> targets{};      // Each with a name of its own; see TargetsOf.
  std::string min_workers = "100%";
  capture::Spec capture{};     // Its min_workers is set once the targets are known.
  std::optional<Nanos> ttl{};  // From its end until it is deleted; none = it is kept.
  bool reclaim = false;        // reclaimPolicy is Delete.
  bool cancel = false;
  std::string invalid{};  // Why the spec cannot be carried out; empty when it can.
  RequestStatus status{};
};

// All targets, at least one.
std::span<const job::TargetSpec> TargetsOf(const ProfileRequest& request);

// Null when the status has no such condition.
const kube::Condition* FindCondition(const RequestStatus& status, std::string_view type);
// Whether the request has ended, well or not: its condition Succeeded is not Unknown any more.
bool IsFinished(const RequestStatus& status);

// The path of the collection of one namespace, or of all namespaces if `ns` is empty.
std::string RequestsPath(const std::string& ns);
std::string RequestPath(const std::string& ns, const std::string& name);

// Fields of a spec that say when a trace is recorded, and for how long. Evidence takes no time, so
// that a request for it has none of them.
inline constexpr std::array<const char*, 4> kTimeFields = {"steps", "lookBack", "start", "maxSkew"};

// If the spec cannot be carried out, `invalid` has the reason and names the field; the schema
// refuses most such objects. InvalidArgument if not even the metadata can be parsed.
absl::StatusOr<ProfileRequest> ParseRequest(const nlohmann::json& object);

// A request's spec.target alone, which is cheap. InvalidArgument names the field that is wrong.
absl::StatusOr<job::TargetSpec> ParseTarget(const nlohmann::json& target);

// Since when the request has waited for its first attempt; nothing if that began, or the request is
// finished or being deleted. Does not parse the rest, so that it is cheap for all of them.
std::optional<WallTime> PendingSince(const nlohmann::json& object);

// Whether the request has not finished. As cheap.
bool IsOpen(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the request has changed since it was
// read.
nlohmann::json StatusToJson(const ProfileRequest& request, const RequestStatus& status);

// The operator's finalizer on a request. The API server keeps a deleted request until its
// finalizers are removed.
inline bool HasFinalizer(const ProfileRequest& request) {
  return std::find(request.finalizers.begin(), request.finalizers.end(), kube::kFinalizer) !=
         request.finalizers.end();
}

inline std::vector<std::string> WithFinalizer(const ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  finalizers.emplace_back(kube::kFinalizer);
  return finalizers;
}

inline std::vector<std::string> WithoutFinalizer(const ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  std::erase(finalizers, kube::kFinalizer);
  return finalizers;
}

}  // namespace strobe::objects
