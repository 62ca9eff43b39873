// A ProfileRequest's values, free of JSON. Field meanings and ranges stand in crds/.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/core/admission_seal.h"
#include "operator/core/capture_spec.h"
#include "operator/core/requester.h"

namespace strobe {

enum class ConditionStatus { kUnknown, kTrue, kFalse };

struct Condition {
  std::string type{};
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason{}, message{};
  std::int64_t observed_generation = 0;
  WallTime since{};  // lastTransitionTime; whole seconds.
};

struct JobRef {
  std::string api_version{}, kind{}, name{};
};

struct TargetSpec {
  std::string
      selector{};  // As the API server takes it: "app=train,tier in (a,b)"; empty = not set.
  std::optional<JobRef> job{};
  std::vector<std::string> pods{};
  std::string container{};
  std::size_t expected_workers = 0;  // 0 = as the job says.
  bool sample = false;
  std::size_t count = 0;  // 0 = not set.
  std::vector<int> ranks{};
};

struct StatusOutcome {
  std::string pod{}, cause{}, message{}, lateness{};
};

struct RequestStatus {
  std::int64_t observed_generation = 0;
  std::vector<Condition> conditions{};
  std::string run{};
  std::optional<WallTime> start_time{}, completion_time{}, retry_time{};
  int attempt = 0;
  std::size_t queue_position = 0;  // Captures that come first on its workers; 0 = its turn.
  std::size_t matched = 0, armed = 0, ok = 0, empty = 0, failed = 0;
  std::optional<std::size_t> expected{};  // Workers that the job should have; none = not known.
  std::string skew{}, skew_error{};       // Empty = not known.
  std::string clock_pod{}, clock_offset{}, clock_error{};
  std::uint64_t bytes = 0;
  std::vector<StatusOutcome> outcomes{};
};

struct ProfileRequest {
  std::string space{}, name{}, uid{}, resource_version{};
  std::int64_t generation = 0;
  WallTime created{};
  bool deleting = false;
  WallTime deleted{};  // When it was asked to be deleted.
  std::vector<std::string> finalizers{};
  std::optional<Requester> requester{};  // Who asked, if the seal holds.
  SealedAdmission admission{};           // What the seal should be of,
  std::string seal{};                    // and the seal.
  TargetSpec target{};
  std::string min_workers = "100%";
  CaptureSpec capture{};  // min_workers is filled in once the targets are known.
  std::optional<Nanos> ttl{};
  bool reclaim = false;  // reclaimPolicy: Delete.
  bool cancel = false;
  std::string invalid{};  // Why the spec cannot be carried out; empty when it can.
  RequestStatus status{};
};

const Condition* FindCondition(const RequestStatus& status, std::string_view type);
// Has ended, one way or the other.
bool IsFinished(const RequestStatus& status);

}  // namespace strobe
