// One of the conditions in an object's status.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

// The types of conditions. What each says is in docs/reference.
namespace strobe::condition {
inline constexpr char kAccepted[] = "Accepted";
inline constexpr char kStarted[] = "Started";
inline constexpr char kSynchronized[] = "Synchronized";
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kStalled[] = "Stalled";
inline constexpr char kReady[] = "Ready";
inline constexpr char kSuspended[] = "Suspended";
}  // namespace strobe::condition

namespace strobe::kube {

enum class ConditionStatus { kUnknown, kTrue, kFalse };

struct Condition {
  std::string type{};
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason{}, message{};
  std::int64_t observed_generation = 0;
  WallTime since{};  // lastTransitionTime, in whole seconds.

  bool operator==(const Condition&) const = default;
};

// Reasons of the condition Stalled once it is False again: the job went on by itself, so that the
// verdict was about a pause; or it was restarted, and the verdict holds for what ended.
inline constexpr char kStallWithdrawn[] = "JobMoves", kStallRestarted[] = "Restarted";

// Null if there is no condition of this type.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

// Sets `since` of a condition that is about to be written: lastTransitionTime tells when the value
// changed, not when it was last written. `before` are the object's conditions until now.
void SetSince(const std::vector<Condition>& before, WallTime now, Condition& condition);

// Puts a condition that is about to be written in the place of the one of its type. `before` as for
// SetSince.
void PutCondition(const std::vector<Condition>& before, WallTime now, Condition condition,
                  std::vector<Condition>& conditions);

// Returns the time as the API server stores it.
WallTime WholeSeconds(WallTime time);

// Throws nlohmann's exceptions if a field has the wrong type.
std::vector<Condition> ReadConditions(const nlohmann::json& status);
nlohmann::json ConditionsToJson(const std::vector<Condition>& conditions);

}  // namespace strobe::kube
