// Copies a run from one logdir into another and proves that the copy is the same.
#pragma once
#include <functional>
#include <string>

#include "collector/logdir/object_store.h"

namespace strobe {

struct CopyProgress {
  std::uint64_t done = 0, all = 0;  // Bytes.
};

struct CopyTotals {
  std::size_t objects = 0;
  std::uint64_t bytes = 0;
};

// Objects that are there already with the same bytes are left alone, ones with other bytes are an
// error. Checksums of the manifest are verified; DataLoss names the object that does not have its
// own. The manifest comes last. `progress` may be called from any thread, one at a time.
absl::StatusOr<CopyTotals> CopyRun(ObjectStore& from, ObjectStore& to, const std::string& run,
                                   const std::function<void(CopyProgress)>& progress);

}  // namespace strobe
