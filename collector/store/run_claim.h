// Who owns a run. Anybody may choose a run's name, and two captures may choose the same one, so a
// capture claims the run's directory before it writes: the object "strobe.capture" in it has the
// capture's id and is never overwritten. A name that is taken is counted up: run, run_2, run_3...
//
// All workers of a capture find the same name without talking to each other, because claims do not
// change.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"

namespace strobe::storage {

inline constexpr int kMaxRunNumber = 1000;

// The key of a run's claim: ".../strobe.capture".
std::string ClaimKey(std::string_view run);

// The run of a capture whose workers may write but not read the logdir, which therefore claim none:
// the name ends with a hash of the capture's id.
std::string UnclaimedRun(std::string_view run, std::string_view capture_id);

// Claims a run for the capture and returns its name. If the capture has claimed one already,
// returns that. A directory that has objects but no claim belongs to another tool. An identity that
// may not read the logdir claims nothing; it gets UnclaimedRun. AlreadyExists after kMaxRunNumber
// names. `capture_id` is not empty.
absl::StatusOr<std::string> ClaimRun(ObjectStore& store, std::string_view run,
                                     std::string_view capture_id);

// The run that the capture writes into under this name. NotFound if there is none, PermissionDenied
// if that cannot be seen.
absl::StatusOr<std::string> FindClaimedRun(ObjectStore& store, std::string_view run,
                                           std::string_view capture_id);

}  // namespace strobe::storage
