// Everything in a sidecar that works on the agent's directory, --agent-dir.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "sidecar/main/flags.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/agent_source.h"
#include "sidecar/source/agent/flight_recorder.h"
#include "sidecar/source/agent/job_monitor.h"
#include "sidecar/source/auto_source.h"
#include "sidecar/source/inproc/inproc_source.h"
#include "sidecar/source/kineto/kineto_daemon.h"
#include "sidecar/source/kineto/kineto_source.h"

namespace strobe {

// Opens the directory of --agent-dir. Returns null without that flag. Also returns null, and logs
// the error, if the directory cannot be used: the trainer can do without its annotations, so it
// must not be held up. FailedPrecondition if another sidecar serves the directory already, because
// the two would switch each other's programs off.
absl::StatusOr<std::unique_ptr<source::AgentDirectory>> OpenAgentDirectory(
    const SidecarFlags& flags);

class AgentParts {
 public:
  struct Flight {
    Nanos look_back{0};    // How far captures reach back. 0: there is no flight recorder.
    bool devices = false;  // GPUs are recorded at all times too.
    // The ports of profiler servers, to which their programs leave the GPUs.
    source::FrameworkPorts ports{};
  };
  // Clock and framework outlive it. With a flight recorder the programs of the directory record at
  // all times; see --flight-recorder. With `kineto` the sidecar is Kineto's daemon. For `may_stall`
  // see --allow-stalls.
  AgentParts(const Clock& clock, session::Source& framework,
             std::unique_ptr<source::AgentDirectory> directory, Flight flight,
             std::optional<source::KinetoDaemonOptions> kineto, bool may_stall);

  // The framework's profilers and the agent as one source.
  session::Source& source() { return both_; }
  session::JobMonitor& monitor() { return monitor_; }
  const source::AgentDirectory& directory() const { return *directory_; }
  // A program with the agent is running.
  bool connected();
  // See KinetoDaemon::refused; empty if the sidecar is not Kineto's daemon.
  std::map<std::string, std::uint64_t> kineto_refused() const;

 private:
  const std::unique_ptr<source::AgentDirectory> directory_;
  source::AgentSource agent_;
  source::InprocSource inproc_;
  const std::unique_ptr<source::KinetoDaemon>
      kineto_daemon_;                                   // Null unless --kineto-daemon is given.
  const std::unique_ptr<source::KinetoSource> kineto_;  // Null without the daemon.
  source::AutoSource both_;
  source::RingMonitor monitor_;
  std::optional<source::FlightRecorder> recorder_;
};

}  // namespace strobe
