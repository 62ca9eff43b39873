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

// Never destroyed, because threads that outlive main may still count.
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
    return absl::Status(absl::StatusCode::kInternal, "");  // There is no memory for a message.
  }
}

}  // namespace internal

std::map<std::string, std::uint64_t> CaughtExceptions() {
  Counts& counts = TheCounts();
  MutexLock lock(&counts.mutex);
  return counts.by_place;
}

}  // namespace strobe
