// Copies a run from one logdir to another and verifies the copy.
#pragma once
#include <functional>
#include <string>

#include "collector/store/object_store.h"

namespace strobe::cli {

struct CopyProgress {
  std::uint64_t done = 0, all = 0;  // Bytes of the run.
};

struct CopyTotals {
  std::size_t objects = 0;
  std::uint64_t bytes = 0;
};

// Copies all objects of the run. An object that the target already has with the same bytes is left
// alone, so that a copy that was interrupted can be repeated. The manifest is copied last: where
// there is a manifest, the run is complete. `progress` is called from several threads, one at a
// time. Errors:
//   NotFound       there is no such run
//   DataLoss       a trace does not have the checksum that the manifest gives it; or the target
//                  cannot have an object because of its name, such as "a/b" beside "a" in a folder,
//                  and all others are copied
//   AlreadyExists  the target has an object of that name with other bytes
absl::StatusOr<CopyTotals> CopyRun(storage::ObjectStore& from, storage::ObjectStore& to,
                                   const std::string& run,
                                   const std::function<void(CopyProgress)>& progress);

// Whether CopyRun failed because of the run, so that other runs may still be copied, and not
// because of a logdir.
inline bool IsFaultOfRun(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsAlreadyExists(status);
}

}  // namespace strobe::cli
