#include "common/base/guard.h"

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

struct Counts {
  Mutex mutex;
  std::map<std::string, std::uint64_t> by_place ABSL_GUARDED_BY(mutex);
};

// The counts are never destroyed: threads that outlive main may still add to them.
Counts& TheCounts() {
  static Counts* const counts = new Counts();
  return *counts;
}

}  // namespace

namespace internal {

absl::Status Caught(const char* where, const char* what) noexcept {
  try {
    {
      Counts& counts = TheCounts();
      MutexLock lock(&counts.mutex);
      ++counts.by_place[where];
    }
    LogError("an exception was caught; this is a defect of Strobe, please report it",
             {{"where", where}, {"what", what}});
    return absl::InternalError(StrCat("an exception was thrown: ", what));
  } catch (...) {
    return absl::Status(absl::StatusCode::kInternal, "");  // No memory even for the words.
  }
}

}  // namespace internal

std::map<std::string, std::uint64_t> CaughtExceptions() {
  Counts& counts = TheCounts();
  MutexLock lock(&counts.mutex);
  return counts.by_place;
}

}  // namespace strobe
