#include "operator/core/run_creator.h"

namespace strobe {

std::string_view NounOf(CreatorKind kind) {
  return kind == CreatorKind::kSchedule ? "schedule" : "trigger";
}

std::vector<CreatedRun> BeyondHistory(const RunCreator& creator,
                                      const std::vector<CreatedRun>& runs) {
  std::vector<CreatedRun> beyond;
  std::size_t succeeded = 0, others = 0;
  for (const CreatedRun& run : runs) {
    if (run.state == RunState::kUnfinished || run.deleting) continue;
    const bool good = run.state == RunState::kSucceeded;
    std::size_t& kept = good ? succeeded : others;
    if (++kept > (good ? creator.keep_succeeded : creator.keep_failed)) beyond.push_back(run);
  }
  return beyond;
}

}  // namespace strobe
