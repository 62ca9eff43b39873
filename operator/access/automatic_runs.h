// The runs that schedules and triggers have started, as the bounds of policies count them: those of
// the cache, and those that this process is about to create or has created and that the watch has
// not brought yet. Not safe for concurrent use.
//
// Another operator's run is not counted until the watch brings it. The error is small: only the
// leader starts the runs of schedules, and triggers read the job's runs from the server and start
// one at a time. So at most one run of each is missed, within the delay of a watch. Asking the
// server for all runs instead would cost a list for each capture, and most of them when alerts
// storm.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/object_cache.h"
#include "operator/objects/request.h"
#include "operator/policy/automatic_limits.h"

namespace strobe::access {

class AutomaticRuns {
 public:
  // Both outlive it. `seal_keys` as in KubeGatekeeper::Options: only what the operator has sealed
  // is somebody's run.
  AutomaticRuns(const Clock& clock, const kube::ObjectCache& requests,
                std::function<std::vector<std::string>()> seal_keys)
      : clock_(clock), requests_(requests), seal_keys_(std::move(seal_keys)) {}

  // The runs of the job in the namespace.
  policy::JobRuns OfJob(const std::string& ns, const std::string& job);
  // Counts the run from now on: it is about to be created, or may have been.
  void Expect(const objects::ProfileRequest& run);
  // Stops counting the run: it was not created.
  void Forget(const std::string& ns, const std::string& name) { expected_.erase(Key(ns, name)); }

 private:
  struct Expected {
    kube::CreatedRun run;
    MonoTime since;
  };
  static std::string Key(const std::string& ns, const std::string& name) { return ns + "/" + name; }

  const Clock& clock_;
  const kube::ObjectCache& requests_;
  const std::function<std::vector<std::string>()> seal_keys_;
  std::map<std::string, Expected> expected_;
};

}  // namespace strobe::access
