// Keeps programs recording their annotations although no capture runs, so that a capture can reach
// back. Rings overwrite their oldest records, so this costs a program what a capture does, and
// memory nothing more than the rings.
#pragma once
#include <cstdint>
#include <string>
#include <thread>

#include "collector/base/cancellation.h"

namespace strobe {

class FlightRecorder {
 public:
  // Programs that come later are found within a second. `level` as tracers.host.
  FlightRecorder(std::string directory, std::uint32_t level);
  // Programs stop recording.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

 private:
  void Run();

  const std::string directory_;
  const std::uint32_t level_;
  Cancellation stop_;
  std::thread thread_;
};

}  // namespace strobe
