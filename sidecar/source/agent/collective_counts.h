// Counts the collectives that the programs of the agent's directory tell, for the metrics.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "agent/wire/collective_layout.h"
#include "common/base/mutex.h"

namespace strobe::source {

// Safe for concurrent use.
class CollectiveCounts {
 public:
  // Counts nothing if `directory` is empty.
  explicit CollectiveCounts(std::string directory) : directory_(std::move(directory)) {}

  // How many calls of each name were told, also by programs that have ended since an earlier look.
  // Names without calls are left out.
  std::map<std::string, std::uint64_t> Read();

 private:
  using Calls = std::array<std::uint64_t, wire::kCollectiveCalls>;

  const std::string directory_;
  Mutex mutex_;
  std::map<std::string, Calls> last_ ABSL_GUARDED_BY(mutex_);  // By path.
  Calls total_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace strobe::source
