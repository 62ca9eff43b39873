#include "sidecar/source/auto_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "collector/xplane/edit.h"

namespace strobe {

using session::Recording;

namespace {

constexpr Nanos kLook = std::chrono::milliseconds(100);  // At a server of this pod.

}  // namespace

std::vector<v1::Source> AutoSource::Probe(Nanos timeout) {
  std::vector<v1::Source> servers = framework_.Probe(timeout), agents = agent_.Probe(timeout);
  const auto ready = [](const v1::Source& source) { return source.ready(); };
  // One of the two is enough; what is missing is only worth a word when nothing is there.
  if (std::any_of(agents.begin(), agents.end(), ready))
    std::erase_if(servers, [&](const auto& source) { return !ready(source); });
  else if (std::all_of(servers.begin(), servers.end(), ready))
    agents.clear();
  servers.insert(servers.end(), agents.begin(), agents.end());
  return servers;
}

Nanos AutoSource::lead() const { return std::max(framework_.lead(), agent_.lead()); }

Recording AutoSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                             const Cancellation& terminate,
                             const std::function<void()>& collecting) {
  if (plan.source() == v1::SOURCE_FRAMEWORK)
    return framework_.Record(plan, cancel, terminate, collecting);
  // All containers of a pod share its ports: nobody can tell whose profiler server answers.
  if (plan.source() == v1::SOURCE_AGENT || !plan.container().empty())
    return agent_.Record(plan, cancel, terminate, collecting);
  const auto agents = agent_.Probe(Nanos{0});
  if (std::none_of(agents.begin(), agents.end(), [](const auto& s) { return s.ready(); }))
    return framework_.Record(plan, cancel, terminate, collecting);

  // CUPTI has one subscriber per process: where the framework's own profiler answers, devices are
  // its.
  v1::CapturePlan annotations_plan = plan;
  const auto servers = framework_.Probe(kLook);
  if (std::any_of(servers.begin(), servers.end(), [](const auto& s) { return s.ready(); }))
    annotations_plan.mutable_tracers()->set_device(0);

  // Collecting begins when both have stopped.
  std::atomic<int> recording{2};
  const auto stopped = [&] {
    if (--recording == 0) collecting();
  };
  Recording annotations;
  std::thread helper(
      [&] { annotations = agent_.Record(annotations_plan, cancel, terminate, stopped); });
  Recording result = framework_.Record(plan, cancel, terminate, stopped);
  helper.join();
  // A worker without a profiler server is one that only the agent records.
  if (result.outcome == Outcome::kNoSource) return annotations;
  for (const auto& [reason, events] : annotations.dropped) result.dropped[reason] += events;
  if (annotations.xspace.empty()) return result;
  const absl::Status joined = xplane::AppendXSpace(annotations.xspace, "agent", result.xspace);
  if (joined.ok() && Describe(annotations.outcome).badness > Describe(result.outcome).badness) {
    result.outcome = annotations.outcome;
    result.message = annotations.message;
  }
  return result;
}

}  // namespace strobe
