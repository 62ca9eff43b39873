// Records through the profiler servers of a worker's own processes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "sidecar/session/ports.h"

namespace strobe {

struct FrameworkOptions {
  // host:port of each profiler server; several when the worker has one process per device.
  std::vector<std::string> addresses;
  // A directory that sidecar and trainer both see under this path, for servers from before 2025-09,
  // which cannot answer with the trace. Empty: such servers are refused.
  std::string shared_dir;
};

// Record is not to be called twice at once; Probe is safe at any time.
class FrameworkSource final : public session::Source {
 public:
  FrameworkSource(const Clock& clock, FrameworkOptions options);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  const Clock& clock_;
  const FrameworkOptions options_;
};

}  // namespace strobe
