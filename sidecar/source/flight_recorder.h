// Keeps programs recording their annotations although no capture runs, so that a capture can reach
// back. Rings overwrite their oldest records, so this costs a program what a capture does, and
// memory nothing more than the rings.
#pragma once
#include <cstdint>
#include <thread>

#include "common/base/cancellation.h"
#include "sidecar/source/agent_directory.h"

namespace strobe {

class FlightRecorder {
 public:
  // Programs that begin later record from their beginning; those that cannot read the directory's
  // orders within a second. `level` as tracers.host. `directory` outlives it.
  FlightRecorder(const AgentDirectory& directory, std::uint32_t level);
  // Programs stop recording.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

 private:
  void Run();
  void Wish(std::uint32_t level) const;

  const AgentDirectory& directory_;
  const std::uint32_t level_;
  Cancellation stop_;
  std::thread thread_;
};

}  // namespace strobe
