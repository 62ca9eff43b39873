// Whose a run's objects are. A run's name can be chosen by anybody who may capture into its logdir,
// so a capture writes what is not there yet and deletes what carries its own id: traces by their
// Strobe plane, the manifest by its text. Blocking, within the store's own limits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/logdir/object_store.h"

namespace strobe {

// Creates the run's strobe.json. OK also when the very same bytes lie there already. AlreadyExists:
// another manifest is there; nothing was written.
absl::Status PublishManifest(ObjectStore& store, std::string_view run, const std::string& manifest);

struct Reclaimed {
  std::uint64_t deleted = 0;
  std::uint64_t left = 0;  // Objects of the run that are somebody else's.
};

// Deletes what the capture wrote into the run, and what viewers have derived from its traces and
// kept beside them. PermissionDenied, and nothing is deleted: the run holds something, but nothing
// of this capture.
absl::StatusOr<Reclaimed> ReclaimRun(ObjectStore& store, std::string_view run,
                                     std::string_view capture_id);

// The capture that a manifest is of; empty when the text is no manifest.
std::string CaptureOfManifest(std::string_view text);

}  // namespace strobe
