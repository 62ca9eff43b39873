// Records through the profiler servers inside a worker's processes.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/base/framework_answers.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/base/server_risks.h"
#include "sidecar/source/framework/server_flight_recorder.h"
#include "sidecar/source/inproc/inproc_call.h"

namespace strobe::source {

struct FrameworkOptions {
  // host:port of each profiler server. A worker with one process per device has several.
  std::vector<std::string> addresses;
  // A directory that has the same path in sidecar and trainer, for servers from before 2025-09,
  // which cannot return the trace in their answer. If it is empty, such servers are refused.
  std::string shared_dir{};
  ServerRisks risks{};
  // The agent directory, where processes announce servers that Strobe started in them; empty =
  // none. An address of `addresses` on which such a process listens is not asked: the process is
  // recorded as it announced.
  std::string announced_in{};
  // How long processes that announced themselves may take to answer that their profiler is held. A
  // busy one waits for its interpreter's lock.
  Nanos hold_for = std::chrono::milliseconds(120);
  // Keep the TPUs of the servers in `addresses` recorded while no capture runs, so that captures
  // can reach back. Those of processes that announced themselves are left alone.
  bool flight_recorder = false;
  std::string flight_state{};  // See ServerFlightRecorder; empty = none.
};

// Record must not be called concurrently; Probe may be called at any time.
class FrameworkSource final : public session::Source {
 public:
  FrameworkSource(const Clock& clock, FrameworkOptions options);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  std::vector<session::Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                         const Cancellation& terminate,
                                         const std::function<void()>& collecting) override;

 private:
  struct LastAnswer {
    ServerAge age = ServerAge::kUnknown;
    MonoTime at{};
  };

  struct Server {
    std::string address{};
    std::optional<Announcement> process{};  // The process that announced it, if one did.

    Rank rank() const { return process ? process->job_rank() : std::nullopt; }
  };
  // The configured addresses on which none of these processes listens.
  std::vector<std::string> Unannounced(const std::vector<Announcement>& processes) const;
  // The servers to ask: those that processes announced, and the configured addresses on which no
  // such process listens. If there are announced servers, and no configured one can be connected
  // within `timeout`, the configured ones are left out. The ranks of configured servers are not
  // known.
  std::vector<Server> Servers(const v1::CapturePlan& plan, Nanos timeout) const;
  using Channels = std::vector<std::shared_ptr<grpc::Channel>>;
  static Channels Connect(const std::vector<Server>& servers, int max_bytes);
  // One per server; null where no process announced it.
  using Holds = std::vector<std::unique_ptr<InprocHold>>;
  Holds HoldProcesses(const v1::CapturePlan& plan, const std::vector<Server>& servers) const;
  // Asks the servers whose channel is not null and remembers their ages. If a server does not
  // answer in time, uses its remembered age.
  std::vector<ServerAge> LearnAges(const std::vector<Server>& servers, const Channels& channels,
                                   Nanos timeout);
  // Nothing if the plan does not reach back through servers. Otherwise the reason why it cannot,
  // human-readable, or empty text if it can.
  std::optional<std::string> WhyNoSnapshots(const v1::CapturePlan& plan,
                                            const std::vector<Server>& servers) const;
  // Records by a snapshot at the end of the window, which the servers have recorded all the time.
  std::vector<session::Recording> RecordSnapshots(const v1::CapturePlan& plan,
                                                  const std::vector<Server>& servers,
                                                  RecordingTimes& times, const Cancellation& cancel,
                                                  const Cancellation& terminate,
                                                  const std::function<void()>& collecting);

  const Clock& clock_;
  const FrameworkOptions options_;
  Mutex mutex_;
  std::map<std::string, LastAnswer> last_answers_ ABSL_GUARDED_BY(mutex_);  // By address.
  std::optional<ServerFlightRecorder> recorder_;  // Last, because its thread uses this object.
};

}  // namespace strobe::source
