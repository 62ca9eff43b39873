// The sidecar's metrics for Prometheus.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "sidecar/service/tpu_metrics.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::service {

// Safe for concurrent use.
class SidecarMetrics {
 public:
  SidecarMetrics();
  ~SidecarMetrics();

  void CaptureEnded(const v1::Report& report);
  void UploadRetried();
  void KeptTraceArrived();
  void KeptTraceDropped();
  // `reason` is handshake (plain text or garbage was sent), or the name of a PeerVerdict.
  void PeerRefused(const std::string& reason);
  // What is measured when the metrics are read.
  struct State {
    std::string holder{};  // The capture that holds the worker now, if any.
    std::uint64_t spool_bytes = 0;
    Nanos spool_age{};  // How long the oldest trace has been in the spool.
    bool agent_connected = false;
    std::map<std::string, std::uint64_t> kineto_refused{};  // See KinetoDaemon::refused.
    std::map<std::string, std::uint64_t> collectives{};     // See CollectiveCounts::Read.
    TpuReading tpus{};
  };
  // Returns all metrics in Prometheus' text format.
  std::string Render(const State& state);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::service
