// Whether an alert may start a capture of a job now. It follows from the trigger, the alert and the
// runs that exist, so that a restarted operator, or another one, decides the same. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/trigger/alert.h"
#include "operator/trigger/trigger.h"

namespace strobe {

// What the trigger's runs of the job have used in the last 24 hours. `runs` may have others too.
JobUse UseOf(const ProfileTrigger& trigger, const std::string& job,
             const std::vector<TriggerRun>& runs, WallTime now);

struct TriggerVerdict {
  std::optional<RunRefusal> refusal{};  // None: the run is to be created.
  // Until then every alert of the job is refused for the same reason, and nothing needs to be read.
  std::optional<WallTime> refused_until{};
  std::int64_t number = 0;  // The number of the run to create.
};

// Why no alert starts a capture by this trigger, whatever its job.
std::optional<RunRefusal> WhyTriggerRests(const ProfileTrigger& trigger);
// Why this alert starts nothing, whatever its job and the budget.
std::optional<RunRefusal> WhyAlertIsPast(const Alert& alert, WallTime now);

// `runs` are all runs of triggers that the namespace has of the job.
TriggerVerdict DecideCapture(const ProfileTrigger& trigger, const Alert& alert,
                             const std::string& job, const std::vector<TriggerRun>& runs,
                             WallTime now);

}  // namespace strobe
