#include "sidecar/source/auto_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "common/base/parallel.h"
#include "sidecar/source/process_reports.h"

namespace strobe {

using session::Recording;

namespace {

constexpr Nanos kLook = std::chrono::milliseconds(100);  // At a server of this pod.

}  // namespace

std::vector<v1::Source> AutoSource::Probe(Nanos timeout) {
  std::vector<v1::Source> servers = framework_.Probe(timeout), agents = agent_.Probe(timeout);
  const auto ready = [](const v1::Source& source) { return source.ready(); };
  // Every injected pod names one server, whether its trainer has one or not: where the agent is,
  // that one may be missing. Several are named only by somebody who has them.
  if (servers.size() == 1 && std::any_of(agents.begin(), agents.end(), ready))
    std::erase_if(servers, [&](const auto& source) { return !ready(source); });
  else if (std::all_of(servers.begin(), servers.end(), ready))
    agents.clear();
  servers.insert(servers.end(), agents.begin(), agents.end());
  return servers;
}

Nanos AutoSource::lead() const { return std::max(framework_.lead() + kLook, agent_.lead()); }

Recording AutoSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                             const Cancellation& terminate,
                             const std::function<void()>& collecting) {
  if (plan.source() == v1::SOURCE_FRAMEWORK)
    return framework_.Record(plan, cancel, terminate, collecting);
  // All containers of a pod share its ports: nobody can tell whose profiler server answers.
  if (plan.source() == v1::SOURCE_AGENT || !plan.container().empty())
    return agent_.Record(plan, cancel, terminate, collecting);

  // The agent's source runs also when no program is there yet: one that begins in mid-window is one
  // of the worker's processes, and its absence must not look like a whole recording.
  // CUPTI has one subscriber per process: where the framework's own profiler answers, the process'
  // devices are its.
  v1::CapturePlan agent_plan = plan;
  agent_plan.clear_framework_servers();
  for (const v1::Source& server : framework_.Probe(kLook)) {
    if (server.ready()) agent_plan.add_framework_servers(server.address());
  }

  // Collecting begins when both have stopped.
  std::atomic<int> recording{2};
  const auto stopped = [&] {
    if (--recording == 0) collecting();
  };
  Recording framework, agent;
  ParallelFor(2, 2, [&](std::size_t i) {
    if (i == 0)
      framework = framework_.Record(plan, cancel, terminate, stopped);
    else
      agent = agent_.Record(agent_plan, cancel, terminate, stopped);
  });
  return JoinRecordings(std::move(framework), std::move(agent));
}

}  // namespace strobe
