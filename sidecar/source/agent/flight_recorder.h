// Keeps programs recording annotations, and their GPUs if asked, while no capture runs, so that a
// capture can reach back in time. Rings overwrite their oldest records, so this needs no memory
// beyond the rings; it costs a program as much time as a capture.
#pragma once
#include <cstdint>
#include <optional>
#include <thread>

#include "common/base/cancellation.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/idle_devices.h"

namespace strobe::source {

class FlightRecorder {
 public:
  // `level` is that of tracers.host. Programs that start later record from their start if they can
  // read the directory's orders, otherwise within a second. GPUs are recorded from a few seconds
  // after the program has started CUDA; without `devices` they are not. `directory` must outlive
  // this object.
  FlightRecorder(const AgentDirectory& directory, std::uint32_t level,
                 std::optional<IdleDevices> devices);
  // Makes programs stop recording.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

 private:
  void Run();
  // 0 withdraws what programs were asked for.
  void Wish(std::uint32_t level);

  const AgentDirectory& directory_;
  const std::uint32_t level_;
  std::optional<IdleDevices> devices_;
  Cancellation stop_;
  std::thread thread_;
};

}  // namespace strobe::source
