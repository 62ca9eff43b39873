#include "operator/job/joined_targets.h"

#include <iterator>
#include <map>
#include <utility>

#include "common/base/strings.h"

namespace strobe::job {
namespace {

// A pod has one sidecar, and that records one capture at a time, into files of one role.
absl::Status CheckPods(const std::vector<TargetSelection>& selections) {
  std::map<std::string_view, std::string_view> target_of;
  for (const TargetSelection& each : selections) {
    for (const capture::Target& target : each.selection.targets) {
      if (target.pod.empty()) continue;
      const auto [first, added] = target_of.emplace(target.pod, each.name);
      if (added) continue;
      return absl::InvalidArgumentError(StrCat("pod ", target.pod, " is in both ", first->second,
                                               " and ", each.name,
                                               "; a pod can be in one target only"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string OfTarget(std::string_view name, std::string_view text) {
  return name.empty() ? std::string(text) : StrCat(name, ": ", text);
}

absl::StatusOr<JoinedTargets> JoinTargets(std::vector<TargetSelection> selections) {
  if (const absl::Status apart = CheckPods(selections); !apart.ok()) return apart;
  JoinedTargets joined;
  joined.expected = 0;
  std::vector<std::string> notes, jobs;
  for (TargetSelection& each : selections) {
    Selection& selection = each.selection;
    if (!each.name.empty()) joined.roles.push_back({each.name, each.least});
    joined.least += each.least;
    notes.push_back(OfTarget(each.name, CountWords(selection)));
    if (!selection.job.empty()) jobs.push_back(selection.job);
    if (!selection.expected)
      joined.expected.reset();
    else if (joined.expected)
      *joined.expected += *selection.expected;
    joined.targets.insert(joined.targets.end(), std::make_move_iterator(selection.targets.begin()),
                          std::make_move_iterator(selection.targets.end()));
  }
  if (joined.targets.size() > kMaxWorkers && selections.size() > 1) {
    return absl::InvalidArgumentError(StrCat("the targets have ", joined.targets.size(),
                                             " workers together; at most ", kMaxWorkers,
                                             " are allowed"));
  }
  joined.note = Join(notes, "; ");
  joined.job = Join(jobs, ", ");
  return joined;
}

}  // namespace strobe::job
