// Validates the values of a pod's annotations. Strict, because valid values are copied into the
// pod's fields and the sidecar's flags, and must neither get the pod refused nor keep it from
// starting. Pure.
#pragma once
#include <string_view>

namespace strobe::admission {

bool IsPort(std::string_view text);
// True for one or more ports, separated by commas.
bool IsPorts(std::string_view text);
// True for quantities with which a container can start.
inline constexpr double kMinCpu = 0.001, kMinSidecarMemory = 32.0 * 1024 * 1024;
bool IsCpu(std::string_view text);            // At least 1m.
bool IsZero(std::string_view text);           // A quantity of nothing, such as "0".
bool IsSidecarMemory(std::string_view text);  // At least 32Mi.
bool IsAgentMemory(std::string_view text);    // At least 32Mi, which a program's rings need.
// True for a positive quantity of bytes.
bool IsBytes(std::string_view text);
// True for a size of at least one megabyte as the sidecar's flags accept it: a whole number with a
// unit such as MB, MiB or Gi, up to TiB.
bool IsUploadRate(std::string_view text);
// True for a duration of at most 10 minutes.
bool IsLookBack(std::string_view text);
// True for "UID" or "UID:GID" of a user that is not root.
bool IsUser(std::string_view text);
// True for "none", or names of trainer_changes.h, separated by commas.
bool IsTrainerChangeList(std::string_view text);
// True for a duration from a millisecond to 10 minutes.
bool IsKinetoDuration(std::string_view text);
// "calls" or "times"; see kCollectivesAnnotation.
bool IsCollectives(std::string_view text);

}  // namespace strobe::admission
