#include "operator/job/pod_evidence.h"

#include <algorithm>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::job {

std::string PodEvidence(const capture::Target& target, const PodInfo* pod, WallTime since) {
  if (pod == nullptr) return "the pod is gone";
  if (pod->uid != target.pod_uid) return "the pod was replaced by one of the same name";
  std::vector<std::string> facts;
  if (pod->terminating) facts.emplace_back("the pod is being deleted");
  if (!pod->reason.empty()) facts.push_back(StrCat("the pod was ended: ", pod->reason));
  if (pod->phase != "Running" && !pod->phase.empty())
    facts.push_back(StrCat("the pod is ", pod->phase));
  for (const PodInfo::ContainerState& state : pod->states) {
    std::string fact;
    // The API server's times are whole seconds.
    if (state.ended_at && *state.ended_at >= std::chrono::floor<std::chrono::seconds>(since)) {
      fact = StrCat(state.end_reason == "OOMKilled" ? "was " : "ended: ", state.end_reason,
                    " (exit code ", state.exit_code, ") at ", FormatRfc3339(*state.ended_at));
      if (state.restarts > 0)
        fact += StrCat(", restarted ", state.restarts, state.restarts == 1 ? " time" : " times");
    }
    if (!state.waiting.empty())
      fact += StrCat(fact.empty() ? "" : ", ", "does not run: ", state.waiting);
    if (!fact.empty()) facts.push_back(StrCat("container ", state.name, " ", fact));
  }
  return Join(facts, "; ");
}

std::map<std::string, std::string> EvidenceByTarget(const std::vector<capture::Target>& targets,
                                                    const std::vector<PodInfo>& pods,
                                                    WallTime since) {
  std::map<std::string, const PodInfo*> by_name;
  for (const PodInfo& pod : pods) by_name[pod.name] = &pod;
  std::map<std::string, std::string> evidence;
  for (const capture::Target& target : targets) {
    const auto pod = by_name.find(target.pod);
    std::string words = PodEvidence(target, pod == by_name.end() ? nullptr : pod->second, since);
    if (!words.empty()) evidence.emplace(target.name, std::move(words));
  }
  return evidence;
}

PendingReason WhyPending(const Selection& selection) {
  const std::string count = CountWords(selection);
  const auto first = std::find_if(selection.targets.begin(), selection.targets.end(),
                                  [](const capture::Target& target) { return !target.usable(); });
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

}  // namespace strobe::job
