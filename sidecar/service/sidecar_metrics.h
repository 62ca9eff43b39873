// The sidecar's own numbers, for Prometheus.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "strobe/v1/worker.pb.h"

namespace strobe {

// Safe for concurrent use.
class SidecarMetrics {
 public:
  SidecarMetrics();
  ~SidecarMetrics();

  void CaptureEnded(const v1::Report& report);
  void UploadRetried();
  void KeptTraceArrived();
  void KeptTraceDropped();
  // `reason`: handshake (plain text, garbage), or PeerVerdict's name.
  void PeerRefused(const std::string& reason);
  struct State {
    std::string holder{};  // The capture that holds the worker now, if any.
    std::uint64_t spool_bytes = 0;
    bool agent_connected = false;
  };
  // In Prometheus' text format.
  std::string Render(const State& state);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe
