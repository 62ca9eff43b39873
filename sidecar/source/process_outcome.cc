#include "sidecar/source/process_outcome.h"

#include <algorithm>

#include "collector/base/strings.h"

namespace strobe {

void SetWorst(session::Recording& recording) {
  const auto& processes = recording.processes;
  const auto outcome = [](const v1::ProcessReport& process) {
    return static_cast<Outcome>(process.outcome());
  };
  const auto worst =
      std::max_element(processes.begin(), processes.end(), [&](const auto& a, const auto& b) {
        return Describe(outcome(a)).badness < Describe(outcome(b)).badness;
      });
  recording.outcome = Outcome::kOk;
  recording.message.clear();
  if (worst == processes.end() || outcome(*worst) == Outcome::kOk) return;
  recording.outcome = outcome(*worst);
  recording.message = StrCat(worst->name(), ": ", worst->message());
  const auto bad = std::count_if(processes.begin(), processes.end(), [&](const auto& process) {
    return outcome(process) != Outcome::kOk;
  });
  if (processes.size() > 1)
    recording.message =
        StrCat(bad, " of ", processes.size(), " processes are not Ok; ", recording.message);
}

}  // namespace strobe
