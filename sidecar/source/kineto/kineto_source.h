// Records processes with PyTorch through Kineto's on-demand protocol, as their daemon. For programs
// without Python, and by choice: docs/how-to/without-python.md names what it costs.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/kineto/kineto_daemon.h"

namespace strobe::source {

// Record must not be called concurrently; Probe and lead may be called at any time.
class KinetoSource final : public session::Source {
 public:
  // Both must outlive this object. Processes that announced themselves in `agent_directory` are
  // left to InprocSource, unless they refuse; see WithoutAnnounced.
  KinetoSource(const Clock& clock, KinetoDaemon& daemon, std::string agent_directory)
      : clock_(clock), daemon_(daemon), agent_directory_(std::move(agent_directory)) {}

  // A source per process that asks. If there is none, one that is not ready and says why.
  std::vector<v1::Source> Probe(Nanos timeout) override;
  // 0 while no process asks; otherwise the longest interval, the warm-up and Kineto's second.
  Nanos lead() const override;
  // NoSource without processes if no process asks. The protocol can neither cancel a recording nor
  // end it early: a process that was told goes on to the end of the window, at most
  // KinetoDaemonOptions::max_duration, and its trace is removed after a cancellation.
  std::vector<session::Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                         const Cancellation& terminate,
                                         const std::function<void()>& collecting) override;

  // The announced processes that this source does not record at present: InprocSource's.
  std::vector<Announcement> LeftToInproc(std::vector<Announcement> announced) const;

 private:
  struct KinetoTargets {
    std::vector<KinetoClient> clients{};    // The processes that this source records.
    std::vector<Announcement> announced{};  // All that announced themselves.
  };
  // Reads the agent directory only if a process asks.
  KinetoTargets Look() const;

  const Clock& clock_;
  KinetoDaemon& daemon_;
  const std::string agent_directory_;
};

// The clients without those that announced themselves: no process is recorded twice. A process is
// known by the socket that it announced. If it announced none and may have one, it is known by its
// ID and, where the daemon sees that, by its begin. A process that refuses
// captures over its own socket stays, because Kineto can record it. Pure.
std::vector<KinetoClient> WithoutAnnounced(std::vector<KinetoClient> clients,
                                           const std::vector<Announcement>& announced);
// The announced processes without those that WithoutAnnounced leaves among the clients. Pure.
std::vector<Announcement> WithoutClients(std::vector<Announcement> announced,
                                         const std::vector<KinetoClient>& clients);

}  // namespace strobe::source
