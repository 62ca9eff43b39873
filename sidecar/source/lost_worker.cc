#include "sidecar/source/lost_worker.h"

#include <algorithm>
#include <chrono>

#include "common/protocol/outcome.h"

namespace strobe::source {

void LostWorker::OnRecorded(const std::vector<session::Recording>& recordings) {
  for (const session::Recording& recording : recordings) {
    for (const v1::ProcessReport& row : recording.processes) {
      const auto outcome = static_cast<Outcome>(row.outcome());
      if (outcome == Outcome::kNoSource)
        continue;  // For example a server that injection configured.
      (outcome == Outcome::kWorkerLost ? lost_ : kept_) = true;
    }
  }
  --other_sources_;
}

bool LostWorker::IsLost(Nanos since) {
  constexpr Nanos kRestart = std::chrono::seconds(2);
  const bool lost = other_sources_ == 0 && lost_ && !kept_ && NobodyIsThere();
  nobody_for_ = lost ? nobody_for_ + since : Nanos{0};
  return nobody_for_ >= kRestart;
}

bool LostWorker::NobodyIsThere() {
  constexpr Nanos kLookFor = std::chrono::milliseconds(100);
  const std::vector<v1::Source> sources = waiting_.Probe(kLookFor);
  return std::none_of(sources.begin(), sources.end(),
                      [](const v1::Source& source) { return source.ready(); });
}

}  // namespace strobe::source
