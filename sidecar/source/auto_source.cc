#include "sidecar/source/auto_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "common/base/parallel.h"
#include "sidecar/source/process_reports.h"

namespace strobe {

using session::Recording;

namespace {

// The limit for probing a server in the same pod.
constexpr Nanos kLook = std::chrono::milliseconds(100);

}  // namespace

std::vector<v1::Source> AutoSource::Probe(Nanos timeout) {
  std::vector<v1::Source> servers = framework_.Probe(timeout), agents = agent_.Probe(timeout);
  const auto ready = [](const v1::Source& source) { return source.ready(); };
  // Injection configures one server address in every pod, whether the trainer has a server or not.
  // If the agent is ready, that server may be missing. Several addresses are configured only by
  // users who have several servers.
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
  // Containers of a pod share its ports, so a profiler server's container cannot be determined.
  if (plan.source() == v1::SOURCE_AGENT || !plan.container().empty())
    return agent_.Record(plan, cancel, terminate, collecting);

  // The agent's source also runs if there is no program yet. A program that starts during the
  // window belongs to the worker, and without it the recording would wrongly seem complete.
  //
  // CUPTI has one subscriber per process. Where the framework's profiler answers, it records the
  // process's devices.
  v1::CapturePlan agent_plan = plan;
  agent_plan.clear_framework_servers();
  for (const v1::Source& server : framework_.Probe(kLook)) {
    if (server.ready()) agent_plan.add_framework_servers(server.address());
  }

  // Collecting begins when both sources have stopped.
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
