#include "operator/job/pending_reason.h"

#include <algorithm>

#include "common/base/strings.h"

namespace strobe {

PendingReason WhyPending(const Selection& selection) {
  const std::string count = CountWords(selection);
  const auto first = std::find_if(selection.targets.begin(), selection.targets.end(),
                                  [](const Target& target) { return !target.usable(); });
  if (selection.suspended) return {"JobSuspended", StrCat("the job is suspended; ", count)};
  if (selection.present == 0) {
    if (selection.expected.value_or(0) > 0) return {"NoTargets", count};
    // A job that does not exist is most often a wrong name.
    const bool of_job = !selection.job.empty() && !selection.not_known.empty();
    return {"NoTargets", StrCat("no pod matches the target",
                                of_job ? StrCat("; ", selection.not_known) : std::string())};
  }
  if (selection.usable() == 0) {
    return {std::string(Name(*first->outcome)),
            StrCat("none of ", selection.present, " pods can take part; ", first->name, ": ",
                   first->message, ". ", Describe(*first->outcome).remedy)};
  }
  if (first == selection.targets.end()) return {"WaitingForPods", count};
  return {"WaitingForPods", StrCat(count, "; ", first->name, ": ", first->message)};
}

}  // namespace strobe
