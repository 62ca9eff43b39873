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
  // In Prometheus' text format; `holder` is the capture that holds the worker now, if any.
  std::string Render(const std::string& holder, std::uint64_t spool_bytes);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe
