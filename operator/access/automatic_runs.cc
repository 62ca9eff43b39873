#include "operator/access/automatic_runs.h"

#include <algorithm>

#include "operator/base/requester_json.h"
#include "operator/job/target_spec.h"
#include "operator/objects/run_template.h"

namespace strobe::access {
namespace {

// How long a run that the watch has not brought is expected; after that, somebody must have deleted
// it. Longer than a watch lags, even when it breaks.
constexpr Nanos kMaxExpected = std::chrono::hours(1);

}  // namespace

policy::JobRuns AutomaticRuns::OfJob(const std::string& ns, const std::string& job) {
  policy::JobRuns found{.job = job};
  const std::vector<std::string> keys = seal_keys_();
  for (const kube::Object& request : requests_.InNamespace(ns)) {
    std::optional<kube::CreatedRun> run = objects::ParseAutomaticRun(*request);
    if (run && run->job == job && !kube::SealedCreatorOf(*request, keys).empty())
      found.runs.push_back(*std::move(run));
  }
  std::erase_if(expected_, [&](const auto& entry) {
    return clock_.MonoNow() - entry.second.since > kMaxExpected ||
           requests_.Get(entry.first) != nullptr;
  });
  const std::string begin = Key(ns, "");
  for (auto it = expected_.lower_bound(begin); it != expected_.end(); ++it) {
    if (!it->first.starts_with(begin)) break;
    if (it->second.run.job == job) found.runs.push_back(it->second.run);
  }
  return found;
}

void AutomaticRuns::Expect(const objects::ProfileRequest& run) {
  kube::CreatedRun expected;
  expected.name = run.name;
  expected.created = clock_.WallNow();
  expected.job = job::TextOfTargets(objects::TargetsOf(run));
  expected.recorded = run.capture.duration + run.capture.look_back;
  expected_[Key(run.ns, run.name)] = {std::move(expected), clock_.MonoNow()};
}

}  // namespace strobe::access
