// The runs that schedules and triggers have started, as the bounds of policies count them: those of
// the cache, and those that this process is about to create or has created and that the watch has
// not brought yet. Not safe for concurrent use.
//
// Another operator's run that the watch has not brought is not counted. That is right enough: only
// the leader starts the runs of schedules, triggers read the job's runs from the server and start
// one at a time, and what remains is a run of each within the delay of a watch. It is counted from
// then on. Asking the server for all runs instead would cost a list for each capture, and most of
// them when alerts storm.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "operator/core/automatic_limits.h"
#include "operator/core/request.h"
#include "operator/kube/object_cache.h"

namespace strobe::kube {

class AutomaticRuns {
 public:
  // Both outlive it.
  AutomaticRuns(const Clock& clock, const ObjectCache& requests)
      : clock_(clock), requests_(requests) {}

  // The runs of the job in the namespace.
  JobRuns OfJob(const std::string& ns, const std::string& job);
  // The run will be created, or was, though perhaps nobody knows.
  void Expect(const ProfileRequest& run);
  // It was not created.
  void Forget(const std::string& ns, const std::string& name) { expected_.erase(Key(ns, name)); }

 private:
  struct Expected {
    CreatedRun run;
    MonoTime since;
  };
  static std::string Key(const std::string& ns, const std::string& name) { return ns + "/" + name; }

  const Clock& clock_;
  const ObjectCache& requests_;
  std::map<std::string, Expected> expected_;
};

}  // namespace strobe::kube
