// The bounds on what one namespace may have of Strobe's objects. docs/reference/profilepolicy.md
// tells them together with those of the schemas.
#pragma once
#include <cstddef>

#include "common/base/clock.h"

namespace strobe::kube {

// Entries of the metadata of one object. Kubernetes bounds only the bytes of annotations.
inline constexpr std::size_t kMaxLabels = 64, kMaxAnnotations = 64, kMaxFinalizers = 16,
                             kMaxOwnerReferences = 16;
// ProfileRequests that have not finished, and those of them that schedules and triggers started.
inline constexpr std::size_t kMaxOpenRequests = 2000, kMaxOpenRuns = 200;
// Memory of the operator for the ProfileRequests of one namespace, and of all. As in other shares,
// a namespace has at most as much as is still free, so that there is some for another one.
inline constexpr std::size_t kMaxRequestBytes = std::size_t{64} << 20,
                             kMaxAllRequestBytes = std::size_t{192} << 20;
// ProfileSchedules, and as many ProfileTriggers; and the text of the spec of one.
inline constexpr std::size_t kMaxCreators = 200, kMaxCreatorBytes = std::size_t{64} << 10;
// How often times of schedules are decided on, and so runs started: in a second, and at once.
inline constexpr double kDecisionsPerSecond = 1, kDecisionBurst = 60;

}  // namespace strobe::kube
